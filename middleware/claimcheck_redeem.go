package middleware

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	"github.com/watermill-envelope/envelope/claimcheck"
)

// Middleware is a Watermill handler middleware: a handler behind it finds the body in the
// payload, wherever it was. It belongs inside PoisonQueue and Retry, and in front of
// [Malformed], which then lets no claim through that was not redeemed. A middleware that looks
// at payloads, such as Watermill's Deduplicator with its default key, belongs inside of it: all
// claims that are not redeemed have the same, empty payload.
//
// A redeemed message keeps its claim and is marked with [envelope.MetadataRedeemed], so that
// publishing it again does not store its body again. A message that comes again after that is
// left as it is, like every message that is no claim. Redeeming runs under the message's
// context.
//
// Where redeeming fails the handler is not called, the message is left as it came, and the
// error is a [MessageError]: permanent where the body is gone, is another one, is over
// MaxBodyBytes, or where the claim is no reference or that of another tenant than the
// message's, for which no store is asked; transient where the store or gateway does not do its
// work.
//
// With Lazy nothing is read. The claim is checked as far as that goes without its body, the
// payload stays empty, and the handler calls [ClaimCheck.OpenBody]. Malformed must then have
// PassClaims set.
func (c *ClaimCheck) Middleware(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		if isUnredeemed(msg) && msg.Metadata[envelope.MetadataMalformed] == "" {
			if err := c.receive(msg); err != nil {
				return nil, err
			}
		}
		return h(msg)
	}
}

// receive makes of a claim what a handler is given.
func (c *ClaimCheck) receive(msg *message.Message) error {
	begin := c.begin()
	if c.config.Lazy {
		if _, err := claimOf(msg); err != nil {
			c.redeemed(msg, begin, err)
			return c.notRedeemed(msg, err)
		}
		return nil // OpenBody does the rest
	}
	body, err := c.redeem(msg)
	c.redeemed(msg, begin, err)
	if err != nil {
		return c.notRedeemed(msg, err)
	}
	msg.Payload = body
	msg.Metadata[envelope.MetadataRedeemed] = "true"
	return nil
}

func (c *ClaimCheck) redeem(msg *message.Message) ([]byte, error) {
	claim, err := claimOf(msg)
	if err != nil {
		return nil, err
	}
	return c.redeemer.Redeem(msg.Context(), claim.ref, claim.sha256, claim.size)
}

// A claim is what a message says about a body that it does not have.
type claim struct {
	ref, sha256 string
	size        int64
}

var (
	errClaimTenant = errors.New("the claim belongs to another tenant than the message")
	errClaimSize   = errors.New("beside a claim, not the decimal length of a body")
)

// claimOf returns the claim of msg, or the permanent error of one that no store need be asked
// about. The digest is the Redeemer's to check.
func claimOf(msg *message.Message) (claim, error) {
	ref, err := claimcheck.ParseRef(msg.Metadata[envelope.MetadataClaim])
	if err != nil {
		return claim{}, err
	}
	if tenant := msg.Metadata[envelope.MetadataTenantID]; tenant != "" && tenant != ref.Tenant() {
		return claim{}, &envelope.Error{Code: envelope.CodeTenantMismatch, Err: errClaimTenant}
	}
	size, err := strconv.ParseUint(msg.Metadata[envelope.MetadataSize], 10, 63)
	if err != nil {
		return claim{}, &envelope.Error{Code: envelope.CodeInvalidField, Field: envelope.MetadataSize, Err: errClaimSize}
	}
	return claim{ref.String(), msg.Metadata[envelope.MetadataSHA256], int64(size)}, nil
}

// OpenBody returns a reader of a message's body, wherever that is: of the payload, or of the
// claim of a message that is not redeemed, as the handlers of a Lazy claim check get them. Of a
// claim it holds little in memory, whatever the size, under no limit.
//
// What is read of a claim is not verified until it has all been read: the Read that would
// return io.EOF fails instead when the body is another one, and whatever was done with it must
// be undone then. Errors of OpenBody and Read are those of [ClaimCheck.Middleware], or that of
// [Malformed] for a malformed message.
//
// The caller closes the reader, before the handler returns. The message is not changed:
// published again, it is the same claim.
func (c *ClaimCheck) OpenBody(msg *message.Message) (io.ReadCloser, error) {
	if err := malformedError(msg); err != nil {
		return nil, c.notRedeemed(msg, err)
	}
	if !isUnredeemed(msg) {
		return io.NopCloser(bytes.NewReader(msg.Payload)), nil
	}
	begin := c.begin()
	body, err := c.open(msg)
	if err != nil {
		c.redeemed(msg, begin, err)
		return nil, c.notRedeemed(msg, err)
	}
	return &claimReader{c: c, msg: msg, begin: begin, body: body}, nil
}

func (c *ClaimCheck) open(msg *message.Message) (io.ReadCloser, error) {
	claim, err := claimOf(msg)
	if err != nil {
		return nil, err
	}
	return c.redeemer.Open(msg.Context(), claim.ref, claim.sha256, claim.size)
}

// A claimReader reads the body of a claim, and says of an error which message it is about.
type claimReader struct {
	c     *ClaimCheck
	msg   *message.Message
	begin time.Time
	body  io.ReadCloser
	err   error // what it ended with
}

var errClosed = errors.New("closed")

func (r *claimReader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.body.Read(p)
	switch {
	case err == io.EOF: //nolint:errorlint // what a Reader returns at its end
		r.c.redeemed(r.msg, r.begin, nil)
	case err != nil:
		r.c.redeemed(r.msg, r.begin, err)
		err = r.c.notRedeemed(r.msg, err)
	}
	r.err = err
	return n, err
}

func (r *claimReader) Close() error {
	if r.err == nil {
		r.err = errClosed
		r.c.redeemed(r.msg, r.begin, errClosed)
	}
	return r.body.Close()
}

// notRedeemed logs err and returns it with what it is about.
func (c *ClaimCheck) notRedeemed(msg *message.Message, err error) error {
	e := &MessageError{
		ID: msg.UUID, Index: -1, Claim: envelope.MaskClaim(msg.Metadata[envelope.MetadataClaim]), Err: err,
		logged: c.config.Logger != nil,
	}
	failure{text: "body not redeemed", err: e}.log(msg.Context(), c.config.Logger, msg)
	return e
}

// begin is the time, for an Observer.
func (c *ClaimCheck) begin() time.Time {
	if c.config.Observer == nil {
		return time.Time{}
	}
	return time.Now()
}

// redeemed tells the Observer.
func (c *ClaimCheck) redeemed(msg *message.Message, begin time.Time, err error) {
	if c.config.Observer == nil {
		return
	}
	size, _ := strconv.ParseInt(msg.Metadata[envelope.MetadataSize], 10, 64)
	c.config.Observer.Redeemed(message.SubscribeTopicFromCtx(msg.Context()), size, time.Since(begin), outcome(err))
}

// outcome is the code that an Observer is told.
func outcome(err error) string {
	switch code, _ := codeOf(err); {
	case err == nil:
		return ""
	case errors.Is(err, errClosed):
		return "closed"
	case code == "":
		return "unknown"
	default:
		return code
	}
}
