package googlecloudwire_test

import (
	"errors"
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/ThreeDotsLabs/watermill/message"
	"google.golang.org/protobuf/proto"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/internal/hooktest"
)

// request is how many bytes the client sends for a message.
func request(out pub, project, topic string) int64 {
	return int64(proto.Size(&pubsubpb.PublishRequest{
		Topic:    "projects/" + project + "/topics/" + topic,
		Messages: []*pubsubpb.PubsubMessage{{Data: []byte(out.data), Attributes: out.attributes, OrderingKey: out.key}},
	}))
}

// What Size says is never less than the request takes, with names of any length, and hardly
// more.
func TestSize(t *testing.T) {
	each(t, func(t *testing.T, with func(options) codec) {
		large := hooktest.Message()
		large.Payload = make([]byte, 6_000_000)
		for name, msg := range map[string]*message.Message{
			"the hook":        hooktest.Message(),
			"metadata":        hooktest.With(hooktest.Message(), hundred("k", 92)...),
			"long metadata":   hooktest.With(hooktest.Message(), strings.Repeat("n", 256), strings.Repeat("v", 1024), strings.Repeat("m", 128), strings.Repeat("v", 128)),
			"too many":        hooktest.With(hooktest.Message(), hundred("k", 93)...),
			"left out":        hooktest.With(hooktest.Message(), "ankusa_tenant_id", strings.Repeat("t", 1025)),
			"an ordering key": hooktest.With(hooktest.Message(), "ankusa_ordering_key", strings.Repeat("o", 1024)),
			"a longer one":    hooktest.With(hooktest.Message(), "ankusa_ordering_key", strings.Repeat("o", 1025)),
			"malformed":       unmarshal(t, with(options{}), pub{id: "7", data: "x", key: "key", attributes: map[string]string{"a": "1"}}),
			"no envelope":     message.NewMessage("m", []byte("x")),
			"6 MB":            large,
		} {
			t.Run(name, func(t *testing.T) {
				c := with(options{source: "orders"})
				prepared, err := c.Prepare("hooks", msg)
				if err != nil {
					t.Fatal(err)
				}
				inline, _, limit := c.Size("hooks", prepared, "")
				if limit != 10_000_000 {
					t.Errorf("the limit is %d", limit)
				}
				out := marshal(t, c, prepared)
				if got := request(out, strings.Repeat("p", 63), strings.Repeat("t", 255)); got > inline {
					t.Errorf("the request takes %d bytes, Size says %d", got, inline)
				}
				least := int64(len(out.data) + len(out.key))
				for name, value := range out.attributes {
					least += int64(len(name) + len(value))
				}
				if want := least + 9*int64(len(out.attributes)) + 512; inline != want {
					t.Errorf("Size says %d, want %d", inline, want)
				}
				if n := testing.AllocsPerRun(10, func() { c.Size("hooks", prepared, "acme"); c.Fits("hooks", prepared) }); n != 0 && out.key == "" {
					t.Errorf("%v allocations", n)
				}
				if !c.Fits("hooks", prepared) && inline < limit*3/4 {
					t.Error("does not fit")
				}
				if _, err := with(options{source: "orders", max: inline}).marshal("hooks", prepared); err != nil {
					t.Errorf("the limit is inclusive: %v", err)
				}
				less := with(options{source: "orders", max: inline - 1})
				if less.Fits("hooks", prepared) {
					t.Error("fits into one byte less")
				}
				var tooLarge *envelope.TooLargeError
				if _, err := less.marshal("hooks", prepared); !envelope.IsMalformed(prepared) &&
					(!errors.As(err, &tooLarge) || tooLarge.Size != inline || tooLarge.Max != inline-1 || !envelope.IsPermanent(err)) {
					t.Errorf("one byte less: %v", err)
				}
			})
		}
	})
}

// The key counts wherever a size is asked for, also one that only a function knows.
func TestSizeOfTheKey(t *testing.T) {
	key := strings.Repeat("k", 1024)
	each(t, func(t *testing.T, with func(options) codec) {
		o := options{source: "s", key: func(string, *message.Message) string { return key }}
		msg := hooktest.Message()
		o.max, _, _ = with(o).Size("hooks", msg, "")
		for ; o.max > 0 && !with(o).Fits("hooks", msg); o.max++ {
		}
		o.max--
		if o.key = nil; !with(o).Fits("hooks", msg) {
			t.Error("without the key, which takes more than what is missing, it does not fit")
		}

		malformed := unmarshal(t, with(options{}), pub{id: "7", data: "x", key: key})
		inline, _, _ := with(options{}).Size("hooks", malformed, "")
		for limit, enclosed := range map[int64]bool{inline: false, inline - 1: true} {
			prepared, err := with(options{max: limit}).Prepare("hooks", malformed)
			if err != nil {
				t.Fatal(err)
			}
			if got := !envelope.IsMalformed(prepared); got != enclosed {
				t.Errorf("a limit of %d of %d bytes: enclosed %t", limit, inline, got)
			}
		}
	})
}
