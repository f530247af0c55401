// Package goaws runs a server of SQS and SNS inside a process. It serves an example well and is
// no reference for AWS: it checks no sizes, locks no groups, and keeps everything in memory.
package goaws

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/Admiral-Piett/goaws/app/gosqs"
	"github.com/Admiral-Piett/goaws/app/models"
	"github.com/Admiral-Piett/goaws/app/router"
	"github.com/sirupsen/logrus"
)

// Region and AccountID are those of every queue and topic.
const (
	Region    = "us-east-1"
	AccountID = "000000000000"
)

// Start starts a server. Its queues and topics belong to the process: start one.
func Start() *httptest.Server {
	logrus.SetOutput(io.Discard) // the server logs each request
	models.CurrentEnvironment = models.Environment{
		// Clients take the path of a queue's URL and their own endpoint's host.
		Host: "127.0.0.1", Port: "0", Region: Region, AccountID: AccountID, EnableDuplicates: true,
		QueueAttributeDefaults: models.EnvQueueAttributes{VisibilityTimeout: 30, MaximumMessageSize: 1 << 20},
	}
	go gosqs.PeriodicTasks(50*time.Millisecond, nil) // what is invisible becomes visible
	return httptest.NewServer(&server{routes: router.New()})
}

// A server asks goaws for one request at a time, because that reads its maps without their
// locks, and gives errors the codes that clients look for.
type server struct {
	mu     sync.Mutex
	routes http.Handler
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	action := r.Header.Get("X-Amz-Target")
	if strings.HasSuffix(action, ".SetQueueAttributes") && bytes.Contains(body, []byte(`"Policy"`)) {
		_, _ = io.WriteString(w, "{}") // anyone may do anything here
		return
	}
	// To wait for messages would keep all others waiting.
	body = bytes.ReplaceAll(body, []byte(`"WaitTimeSeconds":20`), []byte(`"WaitTimeSeconds":0`))
	var answer *httptest.ResponseRecorder
	for end := time.Now().Add(time.Second); ; time.Sleep(10 * time.Millisecond) {
		r.Body, answer = io.NopCloser(bytes.NewReader(body)), httptest.NewRecorder()
		s.mu.Lock()
		s.routes.ServeHTTP(answer, r)
		s.mu.Unlock()
		if !strings.HasSuffix(action, ".ReceiveMessage") || r.Context().Err() != nil || time.Now().After(end) ||
			answer.Code != http.StatusOK || bytes.Contains(answer.Body.Bytes(), []byte(`"ReceiptHandle"`)) {
			break
		}
	}
	text := answer.Body.Bytes()
	if answer.Code >= http.StatusBadRequest {
		text = bytes.ReplaceAll(text, []byte("AWS.SimpleQueueService.NonExistentQueue"), []byte("com.amazonaws.sqs#QueueDoesNotExist"))
		text = bytes.ReplaceAll(text, []byte("AWS.SimpleNotificationService.NonExistentTopic"), []byte("NotFound"))
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(text)
}
