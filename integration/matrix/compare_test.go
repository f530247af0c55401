package matrix

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/watermill-envelope/envelope"
)

// differences says in which fields got is not want, one line for each, or for each entry of
// Headers and Metadata. It looks at every field there is, also at those that are new.
func differences(want, got *envelope.Envelope) []string {
	var found []string
	w, g := reflect.ValueOf(want).Elem(), reflect.ValueOf(got).Elem()
	for i := range w.NumField() {
		name, a, b := w.Type().Field(i).Name, w.Field(i).Interface(), g.Field(i).Interface()
		switch a := a.(type) {
		case time.Time:
			if !a.Equal(b.(time.Time)) {
				found = append(found, differs(name, a, b))
			}
		case []byte:
			if !bytes.Equal(a, b.([]byte)) {
				found = append(found, differs(name, string(a), string(b.([]byte))))
			}
		case []envelope.Header:
			found = append(found, headerDifferences(a, b.([]envelope.Header))...)
		case map[string]string:
			found = append(found, metadataDifferences(a, b.(map[string]string))...)
		default:
			if !reflect.DeepEqual(a, b) {
				found = append(found, differs(name, a, b))
			}
		}
	}
	return found
}

func headerDifferences(want, got []envelope.Header) (found []string) {
	for i := range max(len(want), len(got)) {
		field := fmt.Sprintf("Headers[%d]", i)
		switch {
		case i >= len(got):
			found = append(found, fmt.Sprintf("%s is lost, want %.100q", field, want[i]))
		case i >= len(want):
			found = append(found, fmt.Sprintf("%s is %.100q, want none", field, got[i]))
		case want[i] != got[i]:
			found = append(found, differs(field, want[i], got[i]))
		}
	}
	return found
}

func metadataDifferences(want, got map[string]string) (found []string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		field := fmt.Sprintf("Metadata[%.60q]", name)
		if value, ok := got[name]; !ok {
			found = append(found, fmt.Sprintf("%s is lost, want %.100q", field, want[name]))
		} else if value != want[name] {
			found = append(found, differs(field, want[name], value))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			found = append(found, fmt.Sprintf("Metadata[%.60q] is %.100q, want none", name, got[name]))
		}
	}
	return found
}

func differs(field string, want, got any) string {
	if w, ok := want.(string); ok {
		g := got.(string)
		return fmt.Sprintf("%s is %.100q (%d bytes), want %.100q (%d bytes)", field, g, len(g), w, len(w))
	}
	return fmt.Sprintf("%s is %.200v, want %.200v", field, got, want)
}
