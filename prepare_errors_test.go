package envelope_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

func TestPrepareErrors(t *testing.T) {
	const notUTF8 = "a\xffb"
	tests := []struct {
		why      string
		uuid     string
		metadata md
		payload  string
		code     envelope.Code
		field    string
	}{
		{"no source, and no default", otherID, md{}, "x", envelope.CodeInvalidField, envelope.MetadataSourceID},
		{"a changed malformed message has no source of its own", otherID, malformedHook, "x", envelope.CodeInvalidField, envelope.MetadataSourceID},
		{"received_at is no integer", hookID, with(receivedHook, md{envelope.MetadataReceivedAt: "today"}), "x", envelope.CodeInvalidField, envelope.MetadataReceivedAt},
		{"nor is a fraction", hookID, with(receivedHook, md{envelope.MetadataReceivedAt: "1.5"}), "x", envelope.CodeInvalidField, envelope.MetadataReceivedAt},
		{"nor with a sign or zeros in front", hookID, with(receivedHook, md{envelope.MetadataReceivedAt: "+1"}), "x", envelope.CodeInvalidField, envelope.MetadataReceivedAt},
		{"nor with zeros in front", hookID, with(receivedHook, md{envelope.MetadataReceivedAt: "01"}), "x", envelope.CodeInvalidField, envelope.MetadataReceivedAt},
		{"nor beyond 64 bits", hookID, with(receivedHook, md{envelope.MetadataReceivedAt: "9223372036854775808"}), "x", envelope.CodeInvalidField, envelope.MetadataReceivedAt},
		{"nor in a message without envelope", otherID, md{envelope.MetadataSourceID: "s", envelope.MetadataReceivedAt: "-0"}, "x", envelope.CodeInvalidField, envelope.MetadataReceivedAt},
		{"flagged is true or absent", hookID, with(receivedHook, md{envelope.MetadataFlagged: "false"}), "x", envelope.CodeInvalidField, envelope.MetadataFlagged},
		{"the UUID is not UTF-8", notUTF8, md{envelope.MetadataSourceID: "s"}, "x", envelope.CodeInvalidField, envelope.MetadataID},
		{"the source is not UTF-8", hookID, with(receivedHook, md{envelope.MetadataSourceID: notUTF8}), "x", envelope.CodeInvalidField, envelope.MetadataSourceID},
		{"the tenant is not UTF-8", hookID, with(receivedHook, md{envelope.MetadataTenantID: notUTF8}), "x", envelope.CodeInvalidField, envelope.MetadataTenantID},
		{"the content type is not UTF-8", hookID, with(receivedHook, md{envelope.MetadataContentType: notUTF8}), "x", envelope.CodeInvalidField, envelope.MetadataContentType},
		{"the dedupe key is not UTF-8", hookID, with(receivedHook, md{envelope.MetadataDedupeKey: notUTF8}), "x", envelope.CodeInvalidField, envelope.MetadataDedupeKey},
		{"the replay id is not UTF-8", hookID, with(receivedHook, md{envelope.MetadataReplayID: notUTF8}), "x", envelope.CodeInvalidField, envelope.MetadataReplayID},
		{"the idempotency key is not UTF-8", hookID, with(receivedHook, md{envelope.MetadataIdempotencyKey: notUTF8}), "x", envelope.CodeInvalidField, envelope.MetadataIdempotencyKey},
		{"the ordering key is not UTF-8", hookID, with(receivedHook, md{envelope.MetadataOrderingKey: notUTF8}), "x", envelope.CodeInvalidField, envelope.MetadataOrderingKey},
		{"the verification is not UTF-8", hookID, with(receivedHook, md{envelope.MetadataVerification: notUTF8}), "x", envelope.CodeInvalidField, envelope.MetadataVerification},
		{"the instance is not UTF-8", hookID, with(receivedHook, md{envelope.MetadataInstance: notUTF8}), "x", envelope.CodeInvalidField, envelope.MetadataInstance},
		{"the region is not UTF-8", hookID, with(receivedHook, md{envelope.MetadataRegion: notUTF8}), "x", envelope.CodeInvalidField, envelope.MetadataRegion},
		{"the tracestate is not UTF-8", hookID, with(receivedHook, md{envelope.MetadataTracestate: notUTF8}), "x", envelope.CodeInvalidField, envelope.MetadataTracestate},
		{"the headers are not UTF-8", hookID, with(receivedHook, md{envelope.MetadataHeaders: `{"a":"` + notUTF8 + `"}`}), "x", envelope.CodeInvalidField, envelope.MetadataHeaders},
		{"unknown members are not UTF-8", hookID, with(receivedHook, md{envelope.MetadataUnknown: `{"a":"` + notUTF8 + `"}`}), "x", envelope.CodeInvalidField, envelope.MetadataUnknown},
		{"an unredeemed claim without a size", hookID, with(claimedHook, md{envelope.MetadataSize: ""}), "", envelope.CodeInvalidField, envelope.MetadataSize},
		{"with a negative one", hookID, with(claimedHook, md{envelope.MetadataSize: "-1"}), "", envelope.CodeInvalidField, envelope.MetadataSize},
		{"without a digest", hookID, with(claimedHook, md{envelope.MetadataSHA256: ""}), "", envelope.CodeInvalidField, envelope.MetadataSHA256},
		{"with a digest in upper case", hookID, with(claimedHook, md{envelope.MetadataSHA256: strings.ToUpper(helloSum)}), "", envelope.CodeInvalidField, envelope.MetadataSHA256},
		{"that is no reference", hookID, with(claimedHook, md{envelope.MetadataClaim: claimRef + "\n"}), "", envelope.CodeInvalidField, envelope.MetadataClaim},
		{"of another tenant", hookID, with(claimedHook, md{envelope.MetadataTenantID: "zeta"}), "", envelope.CodeTenantMismatch, ""},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			msg := newMessage(tt.uuid, tt.metadata, tt.payload)
			got, err := envelope.Prepare(msg, envelope.Defaults{})
			var e *envelope.Error
			if !errors.As(err, &e) || e.Code != tt.code || e.Field != tt.field {
				t.Fatalf("error %v, want code %s and field %q", err, tt.code, tt.field)
			}
			if got != nil {
				t.Error("a message was returned with the error")
			}
			if !envelope.IsPermanent(err) {
				t.Error("the error is not permanent")
			}
			if strings.Contains(err.Error(), "\xff") || strings.Contains(err.Error(), "zeta") {
				t.Errorf("the error %q shows a value", err)
			}
			if _, err := envelope.FromMessage(msg); err == nil {
				t.Error("FromMessage takes what Prepare refuses")
			}
			if tt.metadata[envelope.MetadataID] == tt.uuid {
				sealed, err := envelope.Seal([]byte("before"), msg, envelope.SealOptions{})
				if !errors.As(err, &e) || e.Code != tt.code || e.Field != tt.field || string(sealed) != "before" {
					t.Errorf("Seal of what was not prepared: %q, error %v, want code %s and field %q", sealed, err, tt.code, tt.field)
				}
			}
		})
	}
}

// A text that is written into the message as it is cannot bring in a member.
func TestPrepareRefusesInjectedMembers(t *testing.T) {
	headers := []string{
		`{"a":"b"},"tenant_id":"evil"`, `{},"claim":"x"`, `"a":"b"`, `{"a":"b"}}`, `{"a":1}`, `{"a":null}`, `{"a":{}}`,
		`{"a":["b"]}`, `[]`, `null`, `"{}"`, ` `, `{`, `{"a"}`, `{"a":"b",}`, `{"a":"b"} {}`, "{}\x00", "\ufeff{}",
		`{"a":"\ud800"}`, `{"a":"` + "\n" + `"}`, `{a:"b"}`, `{'a':'b'}`, `{"a":"b"}//`, `{"a":"b"/**/}`,
	}
	unknown := []string{
		`{"a":1},"tenant_id":"evil"`, `{"id":"x"}`, `{"\u0069d":"x"}`, `{"body_base64":""}`, `{"claim":"x"}`, `{"v":2}`,
		`{"a":1,"sha256":null}`, `{"watermill_metadata":{}}`, `{"ordering_key":"x"}`, `{"headers":{}}`,
		`[]`, `null`, `1`, `{`, `{"a":1}}`, `{"a":NaN}`, `{"a":1e999}`, `{"a":01}`, `{"a":"\udc00"}`, `{"a":1,}`,
		`{"a":` + strings.Repeat("[", 127) + strings.Repeat("]", 127) + `}`,
		`{"\u0062\u006f\u0064\u0079\u005f\u0062\u0061\u0073\u0065\u0036\u0034":""}`,
	}
	for name, texts := range map[string][]string{envelope.MetadataHeaders: headers, envelope.MetadataUnknown: unknown} {
		for _, text := range texts {
			msg := newMessage(hookID, with(receivedHook, md{name: text}), "x")
			var e *envelope.Error
			if _, err := envelope.Prepare(msg, envelope.Defaults{}); !errors.As(err, &e) || e.Code != envelope.CodeInvalidField || e.Field != name {
				t.Errorf("%s %.80s: error %v, want invalid_field with that name", name, text, err)
			}
			if sealed, err := envelope.Seal(nil, msg, envelope.SealOptions{}); err == nil {
				t.Errorf("%s %.80s: was sealed to %s", name, text, sealed)
			}
			if _, err := envelope.FromMessage(msg); err == nil {
				t.Errorf("%s %.80s: FromMessage takes it", name, text)
			}
			if _, err := envelope.HeadersOf(msg); (err == nil) != (name != envelope.MetadataHeaders) {
				t.Errorf("%s %.80s: HeadersOf has error %v", name, text, err)
			}
		}
	}
	for name, texts := range map[string][]string{
		envelope.MetadataHeaders: {`{}`, ` {"a" : "b" , "a":"c"} `, `{"":"","\u0041":"\ud83d\ude00"}`, `{"id":"x"}`},
		envelope.MetadataUnknown: {
			`{}`, ` {"a" : 1 , "a":[null]} `, `{"V":1,"ID":2,"":3,"Body_Base64":"x"}`, `{"a":{"id":1,"claim":2}}`,
			`{"a":` + strings.Repeat("[", 126) + strings.Repeat("]", 126) + `}`,
		},
	} {
		for _, text := range texts {
			msg := newMessage(hookID, with(receivedHook, md{name: text}), "x")
			prepared, err := envelope.Prepare(msg, envelope.Defaults{})
			if err != nil {
				t.Errorf("%s %.80s: %v", name, text, err)
				continue
			}
			sealed, err := envelope.Seal(nil, prepared, envelope.SealOptions{})
			if err != nil {
				t.Errorf("%s %.80s: %v", name, text, err)
				continue
			}
			if e, err := envelope.ParseWire(sealed); err != nil || e.ID != hookID || e.TenantID != "acme" {
				t.Errorf("%s %.80s: %v from %s", name, text, err, sealed)
			}
		}
	}
}

func TestPrepareMintsOnce(t *testing.T) {
	for _, metadata := range []md{nil, {}, {envelope.MetadataID: hookID}, {envelope.MetadataVersion: "1"}} {
		msg := message.NewMessage("", []byte("hello"))
		msg.Metadata = metadata
		first, err := envelope.Prepare(msg, envelope.Defaults{SourceID: "src"})
		if err != nil {
			t.Fatal(err)
		}
		if msg.UUID == "" || msg.UUID == hookID || first.UUID != msg.UUID {
			t.Errorf("%v: minted %q, written back %q", metadata, first.UUID, msg.UUID)
		}
		if msg.Metadata == nil || len(msg.Metadata) != len(metadata) {
			t.Errorf("%v: the caller's metadata became %v", metadata, msg.Metadata)
		}
		retry, err := envelope.Prepare(msg, envelope.Defaults{SourceID: "src"})
		if err != nil || retry.UUID != first.UUID || retry.Metadata[envelope.MetadataID] != first.UUID {
			t.Errorf("%v: a retry has id %q and error %v, want %q", metadata, retry.UUID, err, first.UUID)
		}
	}
}
