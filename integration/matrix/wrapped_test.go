package matrix

import (
	stdsql "database/sql"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-http/v2/pkg/http"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/go-chi/chi"
	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/watermill-envelope/envelope/integration/internal/suite"
	"github.com/watermill-envelope/envelope/marshaler"
)

// postgres is watermill-sql on PostgreSQL.
func postgres(t testing.TB) end {
	t.Helper()
	pool, err := pgxpool.New(suite.Context(t), postgresServer.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return tables("postgresql", sql.BeginnerFromPgx(pool),
		sql.DefaultPostgreSQLSchema{GeneratePayloadType: func(string) string { return "BYTEA" }},
		sql.DefaultPostgreSQLOffsetsAdapter{})
}

// mariaDB is watermill-sql on MariaDB. A payload column of its JSON type would be another text
// than what was written.
//
// It publishes one message after the other: when all ends published at once, some messages never
// came out of watermill-sql here. It seems to skip a row that becomes visible after one with a
// later offset was read.
func mariaDB(t testing.TB) end {
	t.Helper()
	db, err := stdsql.Open("mysql", mariadbServer.DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	e := tables("mariadb", sql.BeginnerFromStdSQL(db),
		sql.DefaultMySQLSchema{GeneratePayloadType: func(string) string { return "LONGBLOB" }},
		sql.DefaultMySQLOffsetsAdapter{})
	publisher := e.publisher
	e.publisher = func(t testing.TB) message.Publisher {
		pub := publisher(t).(*marshaler.Publisher)
		return &oneByOne{Publisher: pub}
	}
	return e
}

// oneByOne publishes one message at a time to each topic. One lock for all of them would never
// be free again: watermill-sql keeps writers from a topic while a message of it is handled.
type oneByOne struct {
	*marshaler.Publisher
	topics sync.Map // of *sync.Mutex
}

func (p *oneByOne) Publish(topic string, messages ...*message.Message) error {
	lock, _ := p.topics.LoadOrStore(topic, new(sync.Mutex))
	mu := lock.(*sync.Mutex)
	mu.Lock()
	defer mu.Unlock()
	return p.Publisher.Publish(topic, messages...)
}

// tables is watermill-sql on a database.
func tables(name string, db sql.Beginner, schema sql.SchemaAdapter, offsets sql.OffsetsAdapter) end {
	return wrapped(name,
		func(t testing.TB) message.Publisher {
			t.Helper()
			pub, err := sql.NewPublisher(db, sql.PublisherConfig{SchemaAdapter: schema}, watermill.NopLogger{})
			if err != nil {
				t.Fatal(err)
			}
			return pub
		},
		func(t testing.TB) message.Subscriber {
			t.Helper()
			sub, err := sql.NewSubscriber(db, sql.SubscriberConfig{
				ConsumerGroup: "matrix", SchemaAdapter: schema, OffsetsAdapter: offsets,
				PollInterval: 50 * time.Millisecond, InitializeSchema: true,
			}, watermill.NopLogger{})
			if err != nil {
				t.Fatal(err)
			}
			return sub
		})
}

// overHTTP is watermill-http, with one server for all topics.
func overHTTP(t testing.TB) end {
	t.Helper()
	mux := chi.NewRouter()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	e := wrapped("http",
		func(t testing.TB) message.Publisher {
			t.Helper()
			pub, err := http.NewPublisher(http.PublisherConfig{MarshalMessageFunc: http.DefaultMarshalMessageFunc}, watermill.NopLogger{})
			if err != nil {
				t.Fatal(err)
			}
			return pub
		},
		func(t testing.TB) message.Subscriber {
			t.Helper()
			sub, err := http.NewSubscriber("", http.SubscriberConfig{Router: mux}, watermill.NopLogger{})
			if err != nil {
				t.Fatal(err)
			}
			return sub
		})
	e.target = func(topic string) string { return server.URL + "/" + topic }
	return e
}
