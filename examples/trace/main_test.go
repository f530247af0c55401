package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	for name, tt := range map[string]struct {
		parent bool
		want   string
	}{
		"linked": {want: `
webhook POST /hooks
└─ send orders [kafka]
   ├╌ process orders [kafka]: the warehouse is closed
   └╌ process orders [kafka]
      └─ send shipped [gochannel]
         └╌ process shipped [gochannel]
`},
		"one trace": {parent: true, want: `
webhook POST /hooks
└─ send orders [kafka]
   ├─ process orders [kafka]: the warehouse is closed
   └─ process orders [kafka]
      └─ send shipped [gochannel]
         └─ process shipped [gochannel]
`},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := run(t.Context(), &out, tt.parent); err != nil {
				t.Fatal(err)
			}
			if want := strings.TrimPrefix(tt.want, "\n"); out.String() != want {
				t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
			}
		})
	}
}
