package servers

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
)

// A Fault answers a request in the place of next, the server, which it may or may not ask.
type Fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

// On restricts a fault to one HTTP method.
func (f Fault) On(method string) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != method {
			next.ServeHTTP(w, r)
			return
		}
		f(w, r, next)
	}
}

// Times restricts a fault to the first n requests that reach it.
func (f Fault) Times(n int64) Fault {
	var seen atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if seen.Add(1) > n {
			next.ServeHTTP(w, r)
			return
		}
		f(w, r, next)
	}
}

// S3Error answers with an error of S3's.
func S3Error(status int, code string) Fault {
	return Answer(status, "application/xml", fmt.Sprintf(
		`<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>as the test wants</Message></Error>`, code))
}

// Answer answers with a page of something else.
func Answer(status int, contentType, body string) Fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		// Or the connection may be reset before the answer is read.
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// LoseAnswer lets the server do its work and breaks the connection instead of answering.
func LoseAnswer() Fault {
	return func(_ http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
}

// LoseRequest breaks the connection before the server sees the request.
func LoseRequest() Fault {
	return func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }
}

// CutBody breaks the connection after n bytes of the answer's body, which was announced whole.
func CutBody(n int) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(&cutter{ResponseWriter: w, left: n}, r)
	}
}

type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	if len(p) <= c.left {
		n, err := c.ResponseWriter.Write(p)
		c.left -= n
		return n, err
	}
	_, _ = c.ResponseWriter.Write(p[:c.left])
	_ = http.NewResponseController(c.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

// Change lets the server answer and changes the body of what it answers, whose length is then
// announced right: as if the object were another. Other answers than 200 and 206 stay.
func Change(change func([]byte) []byte) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		recorder := httptest.NewRecorder()
		next.ServeHTTP(recorder, r)
		body := recorder.Body.Bytes()
		maps.Copy(w.Header(), recorder.Header())
		if recorder.Code == http.StatusOK || recorder.Code == http.StatusPartialContent {
			body = change(body)
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		}
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(body)
	}
}

// Hang answers nothing until the client gives up.
func Hang() Fault {
	return func(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() }
}
