package s3store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/watermill-envelope/envelope/claimcheck"
)

// failure translates an error of the client, by this table:
//
//   - the context ended: unavailable, with the context's error in the tree;
//   - a put's 412: exists. Its 409 ConditionalRequestConflict, which says that another put of
//     the key is under way, is unavailable: the next try knows more;
//   - a get's NoSuchKey, or a 404 with no body at all: not_found. Any other 404 (NoSuchBucket,
//     a page of something that is no S3 server) is unavailable: the configuration is at fault,
//     and no message should be given up for it;
//   - 401, 403, and what S3 and others say with other statuses of credentials, signatures and
//     regions that do not fit: forbidden;
//   - everything else: unavailable.
func failure(ctx context.Context, op, key string, err error) error {
	a := answerOf(err)
	e := &claimcheck.Error{Code: claimcheck.CodeUnavailable, Op: op, Key: key, Status: a.status}
	ended := ctx.Err()
	switch {
	case ended != nil:
		if !errors.Is(err, ended) {
			err = errors.Join(ended, err)
		}
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
	case op == "put" && a.status == http.StatusPreconditionFailed:
		e.Code = claimcheck.CodeExists
	case op == "get" && a.noSuchKey():
		e.Code = claimcheck.CodeNotFound
	case a.refuses():
		e.Code = claimcheck.CodeForbidden
	}
	e.Err = &cause{text: a.text(err), err: err}
	return e
}

// An answer is what an error says of the server's answer. It is zero when there was none.
type answer struct {
	status int
	code   string // of S3's error; where there is none the SDK makes one of the status
	id     string // of the request, for the operator of the server
	empty  bool   // the answer had no body
}

func answerOf(err error) answer {
	var a answer
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.Response != nil && response.Response.Response != nil {
		a.status = response.Response.StatusCode
		a.empty = response.Response.ContentLength == 0
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		a.code = api.ErrorCode()
	}
	var request interface{ ServiceRequestID() string }
	if errors.As(err, &request) {
		a.id = request.ServiceRequestID()
	}
	return a
}

// says reports whether the answer is S3's error of this code and status. Servers that are
// only compatible may leave out the body; a body of another kind is not theirs.
func (a answer) says(code string, status int) bool {
	return a.status == status && (a.code == code || a.empty)
}

func (a answer) noSuchKey() bool { return a.says("NoSuchKey", http.StatusNotFound) }

// refuses reports whether the server knows us not, or does not let us.
func (a answer) refuses() bool {
	if a.status == http.StatusUnauthorized || a.status == http.StatusForbidden {
		return true
	}
	switch a.code {
	case "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch",
		"ExpiredToken", "InvalidToken", "TokenRefreshRequired", // 400
		"AuthorizationHeaderMalformed", // 400: signed for another region
		"XAdminUserNotFound":           // 404: an access key that versitygw does not know
		return true
	}
	return false
}

// A cause is an error of the client with a text that can be shown: it has neither the request's
// URL nor what the server says beyond its code. errors.As finds the rest in it.
type cause struct {
	text string
	err  error
}

func (c *cause) Error() string { return c.text }
func (c *cause) Unwrap() error { return c.err }

func (a answer) text(err error) string {
	var text string
	var request *url.Error
	switch {
	case a.code != "":
		text = fmt.Sprintf("answer %.64q", a.code)
	case a.status != 0:
		text = "answer that is not S3's"
	case errors.As(err, &request):
		text = request.Err.Error()
	default:
		text = err.Error()
	}
	if a.id != "" {
		text += fmt.Sprintf(", request %.64q", a.id)
	}
	return urls.ReplaceAllLiteralString(text, "(URL)")
}

var urls = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]*`)
