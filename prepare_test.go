package envelope_test

import (
	"bytes"
	"context"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

const (
	hookID   = "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10"
	otherID  = "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f11"
	parent   = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	claimRef = "urn:ankusa:claim:v1:acme:01M39VMD8RA3C5HR4RBV67Y002"
	helloSum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // of hello
	emptySum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// now stands for a received_at of the present in the tables.
const now = "<now>"

type md = map[string]string

// with returns base with the entries of more, where an empty value takes one away.
func with(base, more md) md {
	m := maps.Clone(base)
	for name, value := range more {
		if m[name] = value; value == "" {
			delete(m, name)
		}
	}
	return m
}

func newMessage(uuid string, metadata md, payload string) *message.Message {
	msg := message.NewMessage(uuid, []byte(payload))
	msg.Metadata = maps.Clone(metadata)
	return msg
}

// receivedHook are the metadata of a hook as Open leaves them.
var receivedHook = md{
	envelope.MetadataID: hookID, envelope.MetadataSourceID: "stripe", envelope.MetadataTenantID: "acme",
	envelope.MetadataReceivedAt: "1737500000000", envelope.MetadataContentType: "text/plain",
	envelope.MetadataDedupeKey: "evt_1", envelope.MetadataIdempotencyKey: "acme:stripe:evt_1",
	envelope.MetadataReplayID: "r-1", envelope.MetadataOrderingKey: "lane", envelope.MetadataVerification: "ok",
	envelope.MetadataFlagged: "true", envelope.MetadataInstance: "blue", envelope.MetadataRegion: "eu",
	envelope.MetadataTraceparent: parent, envelope.MetadataTracestate: "a=1",
	envelope.MetadataSize: "5", envelope.MetadataSHA256: helloSum,
	envelope.MetadataHeaders: `{"x-event":"push"}`, envelope.MetadataUnknown: `{"future":[1]}`,
	envelope.MetadataReceipt: "queue/7", "correlation_id": "c-1",
}

// claimedHook are those of a hook whose body lies in an object store.
var claimedHook = with(receivedHook, md{envelope.MetadataClaim: claimRef})

// derivedHook are what is left of receivedHook in a message that was made of it.
var derivedHook = md{
	envelope.MetadataID: otherID, envelope.MetadataSourceID: "stripe", envelope.MetadataTenantID: "acme",
	envelope.MetadataReceivedAt: now, envelope.MetadataContentType: "text/plain",
	envelope.MetadataIdempotencyKey: otherID, envelope.MetadataOrderingKey: "lane",
	envelope.MetadataInstance: "blue", envelope.MetadataRegion: "eu",
	envelope.MetadataTraceparent: parent, envelope.MetadataTracestate: "a=1",
	envelope.MetadataHeaders: `{"x-event":"push"}`, "correlation_id": "c-1",
}

// freshHook are the metadata of a plain message from source src.
var freshHook = md{
	envelope.MetadataID: otherID, envelope.MetadataSourceID: "src",
	envelope.MetadataReceivedAt: now, envelope.MetadataIdempotencyKey: otherID,
}

var malformedHook = md{
	envelope.MetadataID: hookID, envelope.MetadataMalformed: "invalid_json", envelope.MetadataRaw: "{",
	envelope.MetadataKey: "k", envelope.MetadataReceipt: "queue/7", envelope.MetadataSourceID: "stripe",
	envelope.MetadataTenantID: "acme", envelope.MetadataTraceparent: parent, envelope.MetadataVersion: "1",
	"content_type": "application/json", "reason_poisoned": "why",
}

type prepareTest struct {
	why      string
	uuid     string
	metadata md
	payload  string
	defaults envelope.Defaults

	same        bool // the message itself is returned
	wantUUID    string
	want        md
	wantPayload string
}

var prepareTests = []prepareTest{
	// Rule 1: the payload is the truth.
	{
		why:  "a hook that is passed on needs no change",
		uuid: hookID, metadata: receivedHook, payload: "hello",
		same: true, wantUUID: hookID, want: receivedHook, wantPayload: "hello",
	},
	{
		why:  "the text of an error that quotes bytes is no reason that a hook cannot be poisoned",
		uuid: hookID, metadata: with(receivedHook, md{"reason_poisoned": "cannot parse \xff\xfe"}), payload: "hello",
		wantUUID: hookID, want: with(receivedHook, md{"reason_poisoned": "cannot parse \uFFFD"}), wantPayload: "hello",
	},
	{
		why:  "a reason that is text stays as it is",
		uuid: hookID, metadata: with(receivedHook, md{"reason_poisoned": "no such größe"}), payload: "hello",
		same: true, wantUUID: hookID, want: with(receivedHook, md{"reason_poisoned": "no such größe"}), wantPayload: "hello",
	},
	{
		why:  "a hook with another payload is the same hook; size and digest are computed on sealing",
		uuid: hookID, metadata: receivedHook, payload: "enriched",
		same: true, wantUUID: hookID, want: receivedHook, wantPayload: "enriched",
	},
	{
		why:  "defaults never touch a hook: what is absent there is absent on purpose",
		uuid: hookID, metadata: with(receivedHook, md{envelope.MetadataTenantID: "", envelope.MetadataSourceID: "", envelope.MetadataRegion: ""}), payload: "hello",
		defaults: envelope.Defaults{SourceID: "src", TenantID: "t", ContentType: "c/d", Instance: "i", Region: "r"},
		same:     true, wantUUID: hookID, wantPayload: "hello",
		want: with(receivedHook, md{envelope.MetadataTenantID: "", envelope.MetadataSourceID: "", envelope.MetadataRegion: ""}),
	},
	{
		why:  "what the sealed form must have is filled in",
		uuid: hookID, metadata: md{envelope.MetadataID: hookID}, payload: "hello",
		wantUUID: hookID, wantPayload: "hello",
		want: md{envelope.MetadataID: hookID, envelope.MetadataReceivedAt: now, envelope.MetadataIdempotencyKey: hookID},
	},
	{
		why:  "a tracestate that is too long loses members",
		uuid: hookID, metadata: with(receivedHook, md{envelope.MetadataTracestate: "a=1,b=" + strings.Repeat("x", 600)}), payload: "hello",
		wantUUID: hookID, wantPayload: "hello", want: receivedHook,
	},
	{
		why:  "a trace context that is none is left alone",
		uuid: hookID, metadata: with(receivedHook, md{envelope.MetadataTraceparent: "none", envelope.MetadataTracestate: "b=2"}), payload: "hello",
		same: true, wantUUID: hookID, wantPayload: "hello",
		want: with(receivedHook, md{envelope.MetadataTraceparent: "none", envelope.MetadataTracestate: "b=2"}),
	},

	// Rule 2: a claim is kept only while it is true.
	{
		why:  "an unredeemed claim is passed on",
		uuid: hookID, metadata: claimedHook,
		same: true, wantUUID: hookID, want: claimedHook,
	},
	{
		why:  "a redeemed body goes out as the claim again",
		uuid: hookID, metadata: with(claimedHook, md{envelope.MetadataRedeemed: "true"}), payload: "hello",
		wantUUID: hookID, want: claimedHook,
	},
	{
		why:  "a payload with the claim's digest is that claim, whoever put it there",
		uuid: hookID, metadata: claimedHook, payload: "hello",
		wantUUID: hookID, want: claimedHook,
	},
	{
		why:  "the size of the claim is that of the payload that has its digest",
		uuid: hookID, metadata: with(claimedHook, md{envelope.MetadataSize: "seven"}), payload: "hello",
		wantUUID: hookID, want: claimedHook,
	},
	{
		why:  "a redeemed body that was changed is no claim",
		uuid: hookID, metadata: with(claimedHook, md{envelope.MetadataRedeemed: "true"}), payload: "changed",
		wantUUID: hookID, wantPayload: "changed",
		want: with(receivedHook, md{envelope.MetadataSize: "", envelope.MetadataSHA256: ""}),
	},
	{
		why:  "a redeemed body that was emptied is no claim",
		uuid: hookID, metadata: with(claimedHook, md{envelope.MetadataRedeemed: "true"}),
		wantUUID: hookID, want: with(receivedHook, md{envelope.MetadataSize: "", envelope.MetadataSHA256: ""}),
	},
	{
		why:  "an empty body can be a claim, too",
		uuid: hookID, metadata: with(claimedHook, md{envelope.MetadataRedeemed: "true", envelope.MetadataSHA256: emptySum, envelope.MetadataSize: "0"}),
		wantUUID: hookID, want: with(claimedHook, md{envelope.MetadataSHA256: emptySum, envelope.MetadataSize: "0"}),
	},
	{
		why:  "a body that moved to another tenant is not its claim, which readers would refuse",
		uuid: hookID, metadata: with(claimedHook, md{envelope.MetadataRedeemed: "true", envelope.MetadataTenantID: "zeta"}), payload: "hello",
		wantUUID: hookID, wantPayload: "hello",
		want: with(receivedHook, md{envelope.MetadataSize: "", envelope.MetadataSHA256: "", envelope.MetadataTenantID: "zeta"}),
	},
	{
		why:  "a claim that is no reference goes when there is a body",
		uuid: hookID, metadata: with(claimedHook, md{envelope.MetadataClaim: "urn:x"}), payload: "hello",
		wantUUID: hookID, wantPayload: "hello",
		want: with(receivedHook, md{envelope.MetadataSize: "", envelope.MetadataSHA256: ""}),
	},
	{
		why:  "a hook without a tenant may have a claim of any",
		uuid: hookID, metadata: with(claimedHook, md{envelope.MetadataTenantID: ""}),
		same: true, wantUUID: hookID, want: with(claimedHook, md{envelope.MetadataTenantID: ""}),
	},

	// Rule 3: another UUID is another message.
	{
		why:  "a derived message keeps where it came from and launders no trust",
		uuid: otherID, metadata: with(receivedHook, md{envelope.MetadataFallback: "true"}), payload: "made of it",
		wantUUID: otherID, want: derivedHook, wantPayload: "made of it",
	},
	{
		why:  "a message derived of a claim has its own body",
		uuid: otherID, metadata: with(claimedHook, md{envelope.MetadataRedeemed: "true"}), payload: "hello",
		wantUUID: otherID, want: derivedHook, wantPayload: "hello",
	},
	{
		why:  "defaults do not touch a derived message",
		uuid: otherID, metadata: md{envelope.MetadataID: hookID}, payload: "x",
		defaults: envelope.Defaults{SourceID: "src", TenantID: "t"},
		wantUUID: otherID, wantPayload: "x",
		want: with(freshHook, md{envelope.MetadataSourceID: ""}),
	},
	{
		why:  "user metadata of a derived message stays, but not what only looks like ours",
		uuid: otherID, payload: "x",
		metadata: with(receivedHook, md{"x": "1", "ankusa_mine": "1", "ENVELOPE_redeemed": "1", "publishTime": "1", "_watermill_delayed_for": "1s"}),
		wantUUID: otherID, wantPayload: "x", want: with(derivedHook, md{"x": "1", "_watermill_delayed_for": "1s"}),
	},

	// Rule 4: malformed stays as it came.
	{
		why:  "a malformed message is passed on",
		uuid: hookID, metadata: malformedHook,
		same: true, wantUUID: hookID, want: malformedHook,
	},
	{
		why:  "a malformed message with a payload is a new message that believes nothing",
		uuid: hookID, metadata: malformedHook, payload: "repaired", defaults: envelope.Defaults{SourceID: "src"},
		wantUUID: hookID, wantPayload: "repaired",
		want: with(freshHook, md{envelope.MetadataID: hookID, envelope.MetadataIdempotencyKey: hookID, "content_type": "", "reason_poisoned": "why"}),
	},
	{
		why:  "a malformed message with another UUID is a new message that believes nothing",
		uuid: otherID, metadata: malformedHook, defaults: envelope.Defaults{SourceID: "src"},
		wantUUID: otherID, want: with(freshHook, md{"reason_poisoned": "why"}),
	},
	{
		why:  "the content type of a foreign malformed message is the sender's own",
		uuid: otherID, metadata: with(malformedHook, md{envelope.MetadataVersion: "", "content_type": "a/b"}),
		defaults: envelope.Defaults{SourceID: "src"},
		wantUUID: otherID, want: with(freshHook, md{"reason_poisoned": "why", "content_type": "a/b", envelope.MetadataContentType: "a/b"}),
	},

	{
		why:  "native attributes of a malformed message that are not text stay behind",
		uuid: otherID, metadata: with(malformedHook, md{envelope.MetadataVersion: "", "content_type": "\xff", "binary": "\xfe", "\xff": "x"}),
		defaults: envelope.Defaults{SourceID: "src"},
		wantUUID: otherID, want: with(freshHook, md{"reason_poisoned": "why"}),
	},

	// Rule 5: what counts as an envelope.
	{
		why:  "a plain message becomes an envelope",
		uuid: otherID, metadata: md{"x": "1"}, payload: "hello", defaults: envelope.Defaults{SourceID: "src"},
		wantUUID: otherID, wantPayload: "hello", want: with(freshHook, md{"x": "1"}),
	},
	{
		why:  "defaults fill what is absent",
		uuid: otherID, metadata: md{}, payload: "hello",
		defaults: envelope.Defaults{SourceID: "src", TenantID: "t", ContentType: "c/d", Instance: "i", Region: "r"},
		wantUUID: otherID, wantPayload: "hello",
		want: with(freshHook, md{
			envelope.MetadataTenantID: "t", envelope.MetadataContentType: "c/d",
			envelope.MetadataInstance: "i", envelope.MetadataRegion: "r",
		}),
	},
	{
		why:  "inputs of the user win over defaults",
		uuid: otherID, payload: "hello",
		metadata: md{
			envelope.MetadataSourceID: "stripe", envelope.MetadataTenantID: "acme", envelope.MetadataDedupeKey: "evt_1",
			envelope.MetadataOrderingKey: "lane", envelope.MetadataContentType: "text/plain", envelope.MetadataReplayID: "r-1",
			envelope.MetadataInstance: "blue", envelope.MetadataRegion: "eu", envelope.MetadataReceivedAt: "-5",
			envelope.MetadataTraceparent: parent, envelope.MetadataTracestate: "a=1",
		},
		defaults: envelope.Defaults{SourceID: "src", TenantID: "t", ContentType: "c/d", Instance: "i", Region: "r"},
		wantUUID: otherID, wantPayload: "hello",
		want: md{
			envelope.MetadataID: otherID, envelope.MetadataIdempotencyKey: "acme:stripe:evt_1",
			envelope.MetadataSourceID: "stripe", envelope.MetadataTenantID: "acme", envelope.MetadataDedupeKey: "evt_1",
			envelope.MetadataOrderingKey: "lane", envelope.MetadataContentType: "text/plain", envelope.MetadataReplayID: "r-1",
			envelope.MetadataInstance: "blue", envelope.MetadataRegion: "eu", envelope.MetadataReceivedAt: "-5",
			envelope.MetadataTraceparent: parent, envelope.MetadataTracestate: "a=1",
		},
	},
	{
		why:  "a content_type counts, and stays the user's",
		uuid: otherID, metadata: md{"content_type": "a/b"}, payload: "hello",
		defaults: envelope.Defaults{SourceID: "src", ContentType: "c/d"},
		wantUUID: otherID, wantPayload: "hello",
		want: with(freshHook, md{"content_type": "a/b", envelope.MetadataContentType: "a/b"}),
	},
	{
		why:  "an ankusa_content_type wins over a content_type",
		uuid: otherID, metadata: md{"content_type": "a/b", envelope.MetadataContentType: "e/f"}, payload: "hello",
		defaults: envelope.Defaults{SourceID: "src"},
		wantUUID: otherID, wantPayload: "hello",
		want: with(freshHook, md{"content_type": "a/b", envelope.MetadataContentType: "e/f"}),
	},
	{
		why:  "a message that is no envelope does not vouch for itself, and has no claim",
		uuid: otherID, payload: "hello", defaults: envelope.Defaults{SourceID: "src"},
		metadata: md{
			envelope.MetadataVerification: "ok", envelope.MetadataFlagged: "true", envelope.MetadataIdempotencyKey: "mine",
			envelope.MetadataSize: "5", envelope.MetadataSHA256: helloSum, envelope.MetadataClaim: claimRef,
			envelope.MetadataRedeemed: "true", envelope.MetadataHeaders: `{"x-event":"push"}`, envelope.MetadataUnknown: `{"future":[1]}`,
		},
		wantUUID: otherID, wantPayload: "hello", want: freshHook,
	},
	{
		why:  "texts that would not be sealed are not refused either",
		uuid: otherID, payload: "hello", defaults: envelope.Defaults{SourceID: "src"},
		metadata: md{envelope.MetadataHeaders: `{`, envelope.MetadataUnknown: `{`, envelope.MetadataFlagged: "yes", envelope.MetadataClaim: "x"},
		wantUUID: otherID, wantPayload: "hello", want: freshHook,
	},
	{
		why:  "what a marshaler's fallback opened keeps the name of its copy",
		uuid: otherID, payload: "hello", defaults: envelope.Defaults{SourceID: "src"},
		metadata: md{envelope.MetadataFallback: "true", envelope.MetadataReceipt: "queue/7"},
		wantUUID: otherID, wantPayload: "hello",
		want: with(freshHook, md{envelope.MetadataFallback: "true", envelope.MetadataReceipt: "queue/7"}),
	},
	{
		why:  "reserved names in any letter case and framing are not user metadata",
		uuid: otherID, payload: "hello", defaults: envelope.Defaults{SourceID: "src"},
		metadata: md{
			"Ankusa_Tenant_Id": "evil", "ENVELOPE_REDEEMED": "true", "Traceparent": parent, "TraceState": "a=1", "ankusa_": "",
			"_watermill_message_uuid": "x", "_watermill_amqp_redelivered": "x", "_watermill_message_google_message_id": "x",
			"publishTime": "x", "_watermill_requeue_retries": "3", "ankusa": "1", "envelope": "2", "": "3",
		},
		wantUUID: otherID, wantPayload: "hello",
		want: map[string]string{
			envelope.MetadataID: otherID, envelope.MetadataSourceID: "src", envelope.MetadataReceivedAt: now,
			envelope.MetadataIdempotencyKey: otherID,
			"_watermill_requeue_retries":    "3", "ankusa": "1", "envelope": "2", "": "3",
		},
	},
	{
		why:  "empty entries are absent",
		uuid: otherID, payload: "hello", defaults: envelope.Defaults{SourceID: "src"},
		metadata: map[string]string{envelope.MetadataID: "", envelope.MetadataSourceID: "", envelope.MetadataMalformed: "", envelope.MetadataTraceparent: "", "mine": ""},
		wantUUID: otherID, wantPayload: "hello",
		want: map[string]string{
			envelope.MetadataID: otherID, envelope.MetadataSourceID: "src", envelope.MetadataReceivedAt: now,
			envelope.MetadataIdempotencyKey: otherID, "mine": "",
		},
	},

	// A message that a stock subscriber received is opened.
	{
		why:  "a sealed message is opened: its JSON is the truth, and native attributes of ours are not believed",
		uuid: otherID, payload: sealedHello,
		metadata: md{
			envelope.MetadataVersion: "1", envelope.MetadataID: "evil", envelope.MetadataTenantID: "evil", envelope.MetadataRedeemed: "true",
			envelope.MetadataReceipt: "evil", "content_type": "application/json", "Traceparent": parent,
			"x": "1", "shared": "native", "_watermill_message_uuid": otherID,
		},
		defaults: envelope.Defaults{SourceID: "src"},
		wantUUID: hookID, wantPayload: "hello",
		want: md{
			envelope.MetadataID: hookID, envelope.MetadataSourceID: "stripe", envelope.MetadataReceivedAt: "1737500000000",
			envelope.MetadataIdempotencyKey: hookID, envelope.MetadataVerification: "ok",
			envelope.MetadataSize: "5", envelope.MetadataSHA256: helloSum, "x": "1", "shared": "member",
		},
	},
	{
		why:  "a sealed message that cannot be opened goes out again as it is",
		uuid: otherID, metadata: md{envelope.MetadataVersion: "1", envelope.MetadataID: "x", "envelope_raw": "evil", "y": "1"}, payload: `{"v":3}`,
		wantUUID: otherID,
		want: md{
			envelope.MetadataVersion: "1", envelope.MetadataID: otherID, "y": "1",
			envelope.MetadataMalformed: "unsupported_version", envelope.MetadataRaw: `{"v":3}`,
		},
	},
}

const sealedHello = `{"v":1,"id":"` + hookID + `","source_id":"stripe","received_at":1737500000000,"size":5,` +
	`"idempotency_key":"` + hookID + `","verification":{"status":"ok","flagged":false},` +
	`"watermill_metadata":{"shared":"member","ankusa_tenant_id":"evil","Envelope_Redeemed":"true","traceparent":"` + parent + `"},` +
	`"sha256":"` + helloSum + `","body_base64":"aGVsbG8="}`

func TestPrepare(t *testing.T) {
	type key struct{}
	for _, tt := range prepareTests {
		t.Run(tt.why, func(t *testing.T) {
			msg := newMessage(tt.uuid, tt.metadata, tt.payload)
			msg.SetContext(context.WithValue(t.Context(), key{}, "kept"))
			before := time.Now().UnixMilli()
			got, err := envelope.Prepare(msg, tt.defaults)
			if err != nil {
				t.Fatal(err)
			}
			if (got == msg) != tt.same {
				t.Errorf("the message itself is returned: %v, want %v", got == msg, tt.same)
			}
			checkMessage(t, got, tt.wantUUID, tt.want, tt.wantPayload, before)
			if got.Context().Value(key{}) != "kept" {
				t.Error("the context was not kept")
			}
			if msg.UUID != tt.uuid || !maps.Equal(msg.Metadata, tt.metadata) || string(msg.Payload) != tt.payload {
				t.Errorf("the caller's message was changed: %q %v %q", msg.UUID, msg.Metadata, msg.Payload)
			}

			again, err := envelope.Prepare(got, envelope.Defaults{SourceID: "other", TenantID: "other"})
			if err != nil || again != got {
				t.Errorf("the result does not prepare to itself (error %v)", err)
			}
			sealed, err := envelope.Seal([]byte("before"), got, envelope.SealOptions{})
			if err != nil {
				t.Fatalf("the result cannot be sealed: %v", err)
			}
			sealed = sealed[len("before"):]
			if inline, _ := envelope.SealedSize(got, envelope.SealOptions{}, ""); inline != int64(len(sealed)) {
				t.Errorf("SealedSize %d, but %d bytes were sealed", inline, len(sealed))
			}
			if envelope.IsMalformed(got) {
				if want := got.Metadata[envelope.MetadataRaw]; string(sealed) != want {
					t.Errorf("sealed %q, want %q", sealed, want)
				}
				return
			}
			if _, err := envelope.ParseWire(sealed); err != nil {
				t.Errorf("what was sealed cannot be read: %v\n%s", err, sealed)
			}
		})
	}
}

// checkMessage compares a message with what it should be. An entry that should be now must
// be a time since before.
func checkMessage(t *testing.T, got *message.Message, uuid string, metadata md, payload string, before int64) {
	t.Helper()
	if got.UUID != uuid {
		t.Errorf("UUID %q, want %q", got.UUID, uuid)
	}
	if !bytes.Equal(got.Payload, []byte(payload)) {
		t.Errorf("payload %q, want %q", got.Payload, payload)
	}
	have := maps.Clone(map[string]string(got.Metadata))
	if metadata[envelope.MetadataReceivedAt] == now {
		at, err := strconv.ParseInt(have[envelope.MetadataReceivedAt], 10, 64)
		if err != nil || at < before || at > time.Now().UnixMilli() {
			t.Errorf("received_at %q is not the present", have[envelope.MetadataReceivedAt])
		}
		have[envelope.MetadataReceivedAt] = now
	}
	for name, value := range metadata {
		if v, ok := have[name]; !ok || v != value {
			t.Errorf("metadata %q is %q (present: %v), want %q", name, v, ok, value)
		}
	}
	for name, value := range have {
		if _, ok := metadata[name]; !ok {
			t.Errorf("metadata has %q: %q", name, value)
		}
	}
}
