package docs_test

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
)

func fields(msg *message.Message) error {
	e, err := envelope.FromMessage(msg)
	if err != nil {
		return err
	}
	fmt.Println(e.SourceID, e.TenantID, e.ReceivedAt.UTC(), e.DeduplicationKey())
	return nil
}

func invoice(msg *message.Message) ([]*message.Message, error) {
	invoice := envelope.Derive(msg, "invoice", []byte(`{"total":1200}`))
	return message.Messages{invoice}, nil
}

func order() *envelope.Envelope {
	return &envelope.Envelope{
		ID:           "019fc6ff-ac19-7c35-9d02-4b7a51e0c3f8",
		SourceID:     "shop",
		TenantID:     "acme",
		ReceivedAt:   time.UnixMilli(1785750072345),
		ContentType:  "application/json",
		Headers:      []envelope.Header{{Name: "x-shop-topic", Value: "orders/paid"}},
		Body:         []byte(`{"total":1200}`),
		DedupeKey:    "7f1c0a52",
		Verification: envelope.Verification{Status: envelope.VerificationOK},
	}
}

func Example_fields() {
	if err := fields(order().Message()); err != nil {
		fmt.Println(err)
	}
	// Output: shop acme 2026-08-03 09:41:12.345 +0000 UTC acme:shop:7f1c0a52
}

// A derived message keeps where it came from and gets an id of its own, the same one
// whenever the handler runs again. It does not inherit the dedupe key or the verification.
func Example_derived() {
	first, _ := invoice(order().Message())
	again, _ := invoice(order().Message())
	e, err := envelope.FromMessage(first[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.SourceID, e.TenantID, string(e.Body))
	fmt.Println(e.ID == order().ID, first[0].UUID == again[0].UUID)
	fmt.Println(e.Verification.Trusted(), e.DeduplicationKey() == e.ID)
	// Output:
	// shop acme {"total":1200}
	// false true
	// false true
}

func logIt(e *envelope.Envelope) {
	slog.Info("hook received", "hook", e)
}

// A logged envelope has neither its body nor the values of its headers.
func Example_logging() {
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	logIt(order())
	// Output:
	// level=INFO msg="hook received" hook.id=019fc6ff-ac19-7c35-9d02-4b7a51e0c3f8 hook.source_id=shop hook.tenant_id=acme hook.received_at=2026-08-03T09:41:12.345Z hook.content_type=application/json hook.dedupe_key=7f1c0a52 hook.verification=ok hook.headers="<1 headers>" hook.body="<14 bytes>"
}
