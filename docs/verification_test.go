package docs_test

import (
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-envelope/envelope"
	hookmw "github.com/watermill-envelope/envelope/middleware"
)

func verified(router *message.Router) {
	router.AddMiddleware(
		hookmw.Malformed{}.Middleware,
		hookmw.Verification{Untrusted: hookmw.RefuseUntrusted}.Middleware,
	)
}

func verifiedBySource() hookmw.Verification {
	verification := hookmw.Verification{
		Untrusted: hookmw.RefuseUntrusted,
		Trust: func(sourceID string, v envelope.Verification) bool {
			return v.Trusted() || sourceID == "intranet" && v.Status == envelope.VerificationSkipped
		},
	}
	return verification
}
