package outbox_test

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/watermill-envelope/envelope/outbox"
)

// An envelope is printed without its payload.
func ExampleNewEnvelope() {
	id := uuid.MustParse("0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10")
	e, err := outbox.NewEnvelope(id, userRegistered{Email: "jo@example.com"})
	if err != nil {
		fmt.Println(err)
		return
	}
	e.CreatedAt = createdAt
	fmt.Println(e)
	fmt.Printf("%s\n", e.Payload)

	event, err := outbox.Decode[userRegistered](e)
	fmt.Println(event.Email, err)
	// Output:
	// outbox event_id=0199a1c2-7b3e-7d4a-9c1f-2e5b8a6d4f10 event_type=users.registered payload=<26 bytes> created_at=2025-01-21T22:53:20.123Z attempts=0
	// {"email":"jo@example.com"}
	// jo@example.com <nil>
}

// What is wrong with a configuration is told at once.
func ExampleNew() {
	_, err := outbox.New(outbox.Config{Table: "Orders", Notify: true})
	fmt.Println(err)
	// Output:
	// outbox: Dialect: a dialect is required: PostgreSQL, MySQL or SQLite
	// outbox: Table: identifier "Orders" has an upper-case letter, which PostgreSQL keeps in quotes only
	// outbox: Notify is for PostgreSQL only
}
