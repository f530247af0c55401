package outbox

import (
	"errors"

	"github.com/watermill-envelope/envelope/internal/sqldialect"
)

// DefaultTable is the name of the table unless set.
const DefaultTable = "audit_outbox"

// The longest names of tables: those whose indexes have names of at most 63 bytes, which is what
// PostgreSQL keeps of a name.
const (
	MaxTableBytes           = MaxDeadLetterTableBytes - len(deadLetterSuffix)
	MaxDeadLetterTableBytes = 63 - len(indexPrefix) - len(exhaustedSuffix)
)

const deadLetterSuffix = "_dead_letter"

// A Config says where events are kept. Dialect is required.
type Config struct {
	Dialect Dialect
	// Table is the name of the table, [DefaultTable] unless set: at most [MaxTableBytes] (34)
	// bytes of lower-case ASCII letters, digits and underscores, the first not a digit. A Rust
	// service does not find a name with upper-case letters on PostgreSQL. Reserved words are
	// names like any other here, but Rust's own statements do not create them. It has no schema;
	// that is a matter of the connection (search_path).
	Table string
	// DeadLetterTable is the name of the table of events that were given up, the name of the
	// table with "_dead_letter" behind it unless set: at most [MaxDeadLetterTableBytes] (46) of
	// the same characters.
	DeadLetterTable string
	// Notify, which is for PostgreSQL only, sends a notification to the channel
	// [Outbox.Channel] when a transaction that published commits, in the statement of the INSERT
	// itself, so that a relay that waits on the channel need not poll to be quick. It costs:
	// PostgreSQL lets transactions that notify commit one after the other, which one writer does
	// not feel, while 16 at once took 1.6 times as long where each commit waits for the disk.
	Notify bool
}

// Validate reports everything that is wrong with c. It does not ask the database, which
// [Outbox.Check] does.
func (c Config) Validate() error {
	var errs []error
	if err := c.Dialect.Validate(); err != nil {
		errs = append(errs, errors.New("outbox: Dialect: "+err.Error()))
	}
	if err := checkTable(c.Table, MaxTableBytes); c.Table != "" && err != nil {
		errs = append(errs, errors.New("outbox: Table: "+err.Error()))
	}
	if err := checkTable(c.DeadLetterTable, MaxDeadLetterTableBytes); c.DeadLetterTable != "" && err != nil {
		errs = append(errs, errors.New("outbox: DeadLetterTable: "+err.Error()))
	}
	if c = c.withDefaults(); c.Table == c.DeadLetterTable {
		errs = append(errs, errors.New("outbox: Table and DeadLetterTable are one"))
	}
	if c.Notify && c.Dialect != PostgreSQL {
		errs = append(errs, errors.New("outbox: Notify is for PostgreSQL only"))
	}
	return errors.Join(errs...)
}

// checkTable refuses what is not the name of a table on every database and for every writer.
func checkTable(name string, limit int) error {
	if err := sqldialect.CheckIdentifier(name, limit); err != nil {
		return err
	}
	for _, c := range []byte(name) {
		if 'A' <= c && c <= 'Z' {
			return errors.New("identifier \"" + name + "\" has an upper-case letter, which PostgreSQL keeps in quotes only")
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Table == "" {
		c.Table = DefaultTable
	}
	if c.DeadLetterTable == "" {
		c.DeadLetterTable = c.Table + deadLetterSuffix
	}
	return c
}

// An Outbox knows the tables of events and the statements on them. It holds no connection and
// never changes: any number of goroutines may use it, on any number of databases with these
// tables.
type Outbox struct {
	config      Config
	table, dead string // quoted
	sql         statements
}

// New returns an Outbox. It does not ask the database.
func New(c Config) (*Outbox, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	o := &Outbox{config: c, table: c.Dialect.Quote(c.Table), dead: c.Dialect.Quote(c.DeadLetterTable)}
	o.sql = o.prepare()
	return o, nil
}

// Table returns the name of the table.
func (o *Outbox) Table() string { return o.config.Table }

// DeadLetterTable returns the name of the table of events that were given up.
func (o *Outbox) DeadLetterTable() string { return o.config.DeadLetterTable }

// Channel returns the name of the channel of PostgreSQL's LISTEN that Config.Notify is about,
// which is that of the table, or "" when it is not set.
func (o *Outbox) Channel() string {
	if !o.config.Notify {
		return ""
	}
	return o.config.Table
}
