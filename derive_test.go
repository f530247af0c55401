package envelope_test

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope"
)

// The UUIDv5 of hookID, LF, invoice in envelope.DeriveNamespace.
const invoiceID = "c9714f94-cabe-5719-933d-2c093e351787"

func TestDerive(t *testing.T) {
	before := func(m md) md {
		return with(m, md{envelope.MetadataReceivedAt: "", envelope.MetadataIdempotencyKey: ""})
	}
	tests := []struct {
		why     string
		uuid    string
		cause   md
		payload string
		want    md
	}{
		{
			why: "a hook", uuid: hookID, cause: receivedHook,
			want: before(with(derivedHook, md{envelope.MetadataID: invoiceID})),
		},
		{
			why: "a cause without a correlation id is one", uuid: hookID, cause: with(receivedHook, md{"correlation_id": ""}),
			want: before(with(derivedHook, md{envelope.MetadataID: invoiceID, "correlation_id": hookID})),
		},
		{
			why: "a claim, redeemed or not", uuid: hookID, cause: with(claimedHook, md{envelope.MetadataRedeemed: "true"}),
			want: before(with(derivedHook, md{envelope.MetadataID: invoiceID})),
		},
		{
			why: "a cause that was itself derived", uuid: hookID, cause: with(receivedHook, md{envelope.MetadataID: otherID}),
			want: before(with(derivedHook, md{envelope.MetadataID: invoiceID})),
		},
		{
			why: "a cause without envelope gives one without", uuid: hookID,
			cause: md{envelope.MetadataTenantID: "acme", envelope.MetadataDedupeKey: "k", envelope.MetadataReceipt: "q", envelope.MetadataFallback: "true", "x": "1"},
			want:  md{envelope.MetadataTenantID: "acme", "x": "1", "correlation_id": hookID},
		},
		{
			why: "a malformed cause is not believed", uuid: hookID, cause: malformedHook,
			want: md{"reason_poisoned": "why", "correlation_id": hookID},
		},
		{
			why: "a sealed cause is opened", uuid: otherID, payload: sealedHello,
			cause: md{envelope.MetadataVersion: "1", envelope.MetadataTenantID: "evil"},
			want:  md{envelope.MetadataID: invoiceID, envelope.MetadataSourceID: "stripe", "shared": "member", "correlation_id": hookID},
		},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			cause := newMessage(tt.uuid, tt.cause, tt.payload)
			got := envelope.Derive(cause, "invoice", []byte("made"))
			checkMessage(t, got, invoiceID, tt.want, "made", 0)
			if cause.UUID != tt.uuid || !maps.Equal(cause.Metadata, tt.cause) || string(cause.Payload) != tt.payload {
				t.Error("the cause was changed")
			}
			if again := envelope.Derive(cause, "invoice", nil); again.UUID != got.UUID {
				t.Error("a handler that runs again derives another id")
			}
			if other := envelope.Derive(cause, "receipt", nil); other.UUID == got.UUID {
				t.Error("another output has the same id")
			}
			prepared, err := envelope.Prepare(got, envelope.Defaults{SourceID: "src"})
			if err != nil || prepared.UUID != invoiceID || prepared.Metadata[envelope.MetadataIdempotencyKey] != invoiceID {
				t.Errorf("prepared to %v, error %v", prepared, err)
			}
			if prepared.Metadata[envelope.MetadataVerification] != "" {
				t.Error("the trust of the cause was laundered")
			}
		})
	}

	t.Run("a replay of the cause derives the same", func(t *testing.T) {
		cause := newMessage(hookID, receivedHook, "x")
		if envelope.Derive(envelope.Replay(cause, "r-2"), "invoice", nil).UUID != invoiceID {
			t.Error("another id")
		}
	})
	t.Run("native attributes of a malformed cause that are not text stay behind", func(t *testing.T) {
		cause := envelope.OpenMalformed([]byte("{"), nil, hookID, md{"binary": "\xff", "\xfe": "x", "text": "kept"})
		got := envelope.Derive(cause, "n", []byte("made"))
		if _, err := envelope.Prepare(got, envelope.Defaults{SourceID: "src"}); err != nil {
			t.Errorf("what was derived cannot be published: %v", err)
		}
		checkMessage(t, got, got.UUID, md{middleware.CorrelationIDMetadataKey: hookID, "text": "kept"}, "made", 0)
	})
	t.Run("a cause without a UUID", func(t *testing.T) {
		cause := newMessage("", nil, "x")
		cause.Metadata = nil
		one, two := envelope.Derive(cause, "n", nil), envelope.Derive(cause, "n", nil)
		if one.UUID == two.UUID || one.UUID == "" || cause.UUID != "" || cause.Metadata != nil {
			t.Errorf("ids %q and %q of a cause without one", one.UUID, two.UUID)
		}
		if _, ok := one.Metadata[middleware.CorrelationIDMetadataKey]; ok {
			t.Error("a correlation id of nothing")
		}
	})
	t.Run("the correlation id is Watermill's", func(t *testing.T) {
		cause := newMessage(hookID, md{}, "x")
		middleware.SetCorrelationID("c-7", cause)
		if got := middleware.MessageCorrelationID(envelope.Derive(cause, "n", nil)); got != "c-7" {
			t.Errorf("correlation id %q", got)
		}
	})
	t.Run("the context has values and is never done", func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "span"))
		cause := newMessage(hookID, receivedHook, "x")
		cause.SetContext(ctx)
		cancel()
		got := envelope.Derive(cause, "n", nil).Context()
		if got.Value(key{}) != "span" || got.Err() != nil {
			t.Errorf("value %v, error %v", got.Value(key{}), got.Err())
		}
	})
	t.Run("the namespace", func(t *testing.T) {
		want := uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://github.com/watermill-envelope/envelope")).String()
		if envelope.DeriveNamespace != want {
			t.Errorf("%s, want %s", envelope.DeriveNamespace, want)
		}
	})
}

func TestReplay(t *testing.T) {
	tests := []struct {
		why     string
		uuid    string
		in      md
		payload string
		id      string
		wantID  string
		want    md
		body    string
	}{
		{
			why: "the same hook, by another delivery", uuid: hookID, in: receivedHook, payload: "hello", id: "r-2",
			wantID: hookID, body: "hello",
			want: with(receivedHook, md{envelope.MetadataReplayID: "r-2", envelope.MetadataReceipt: ""}),
		},
		{
			why: "the very replay that it came in as", uuid: hookID, in: receivedHook, payload: "hello", id: "r-1",
			wantID: hookID, body: "hello", want: receivedHook,
		},
		{
			why: "a redeemed claim stays one", uuid: hookID, in: with(claimedHook, md{envelope.MetadataRedeemed: "true"}), payload: "hello", id: "r-2",
			wantID: hookID, body: "hello",
			want: with(claimedHook, md{envelope.MetadataRedeemed: "true", envelope.MetadataReplayID: "r-2", envelope.MetadataReceipt: ""}),
		},
		{
			why: "a derived message is itself the hook that is replayed", uuid: otherID, in: receivedHook, payload: "x", id: "r-2",
			wantID: otherID, body: "x",
			want: with(derivedHook, md{envelope.MetadataReplayID: "r-2", envelope.MetadataReceivedAt: "", envelope.MetadataIdempotencyKey: ""}),
		},
		{
			why: "a message without envelope", uuid: otherID, in: md{"x": "1"}, payload: "x", id: "r-2",
			wantID: otherID, body: "x", want: md{"x": "1", envelope.MetadataReplayID: "r-2"},
		},
		{
			why: "a malformed message is copied", uuid: hookID, in: malformedHook, id: "r-2",
			wantID: hookID, want: malformedHook,
		},
		{
			why: "a malformed message that was changed", uuid: hookID, in: malformedHook, payload: "x", id: "r-2",
			wantID: hookID, body: "x", want: md{"reason_poisoned": "why", envelope.MetadataReplayID: "r-2"},
		},
		{
			why: "a sealed message is opened", uuid: otherID, in: md{envelope.MetadataVersion: "1"}, payload: sealedHello, id: "r-2",
			wantID: hookID, body: "hello",
			want: md{
				envelope.MetadataID: hookID, envelope.MetadataSourceID: "stripe", envelope.MetadataReceivedAt: "1737500000000",
				envelope.MetadataIdempotencyKey: hookID, envelope.MetadataVerification: "ok",
				envelope.MetadataSize: "5", envelope.MetadataSHA256: helloSum, "shared": "member", envelope.MetadataReplayID: "r-2",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			type key struct{}
			msg := newMessage(tt.uuid, tt.in, tt.payload)
			msg.SetContext(context.WithValue(t.Context(), key{}, "kept"))
			got := envelope.Replay(msg, tt.id)
			if got == msg {
				t.Fatal("no copy")
			}
			checkMessage(t, got, tt.wantID, tt.want, tt.body, 0)
			if got.Context().Value(key{}) != "kept" {
				t.Error("the context was not kept")
			}
			if msg.UUID != tt.uuid || !maps.Equal(msg.Metadata, tt.in) {
				t.Error("the message was changed")
			}
			if envelope.IsMalformed(got) {
				return
			}
			prepared, err := envelope.Prepare(got, envelope.Defaults{SourceID: "src"})
			if err != nil {
				t.Fatal(err)
			}
			want := tt.wantID + ":replay:" + tt.id
			if id := envelope.DeliveryIDOf(prepared); id != want {
				t.Errorf("delivery id %q, want %q", id, want)
			}
			if id := envelope.PublishID(prepared, "t"); (id == want) != (tt.want[envelope.MetadataReceipt] == "") {
				t.Errorf("publish id %q", id)
			}
		})
	}
	t.Run("a replay id is minted", func(t *testing.T) {
		msg := newMessage(hookID, receivedHook, "x")
		one, two := envelope.Replay(msg, ""), envelope.Replay(msg, "")
		if id := one.Metadata[envelope.MetadataReplayID]; id == "" || id == "r-1" || id == two.Metadata[envelope.MetadataReplayID] {
			t.Errorf("replay ids %v and %v", one.Metadata, two.Metadata)
		}
	})
}

func ExampleDerive() {
	handler := func(hook *message.Message) ([]*message.Message, error) {
		invoice := envelope.Derive(hook, "invoice", []byte(`{"total":1200}`))
		invoice.Metadata.Set(envelope.MetadataContentType, "application/json")
		return message.Messages{invoice}, nil
	}
	hook := (&envelope.Envelope{ID: "0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10", SourceID: "shop", TenantID: "acme", DedupeKey: "order-7"}).Message()
	first, _ := handler(hook)
	again, _ := handler(hook) // the hook was delivered twice
	fmt.Println(first[0].UUID)
	fmt.Println(again[0].UUID == first[0].UUID)
	fmt.Println(first[0].Metadata.Get(envelope.MetadataTenantID), first[0].Metadata.Get("correlation_id") == hook.UUID)
	// Output:
	// c9714f94-cabe-5719-933d-2c093e351787
	// true
	// acme true
}
