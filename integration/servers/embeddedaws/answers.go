package embeddedaws

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"
)

// serve answers as SQS does where goaws does not: errors have the codes that clients look
// for, a batch says what was sent, and a receive waits without keeping others from goaws.
func serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	var answer *httptest.ResponseRecorder
	if action == "ReceiveMessage" {
		answer = receive(r, body)
	} else {
		answer = ask(r, body)
	}
	text := answer.Body.Bytes()
	switch {
	case answer.Code >= http.StatusBadRequest:
		text = bytes.ReplaceAll(text, []byte("AWS.SimpleQueueService.NonExistentQueue"), []byte("com.amazonaws.sqs#QueueDoesNotExist"))
		text = bytes.ReplaceAll(text, []byte("AWS.SimpleQueueService."), []byte("com.amazonaws.sqs#"))
		text = bytes.ReplaceAll(text, []byte("AWS.SimpleNotificationService.NonExistentTopic"), []byte("NotFound"))
		text = bytes.ReplaceAll(text, []byte("AWS.SimpleNotificationService."), nil)
	case action == "SendMessageBatch":
		text = bytes.Replace(text, []byte(`"SendMessageBatchResultEntry"`), []byte(`"Successful"`), 1)
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(text) // the client has gone
}

// ask hands a request to goaws.
func ask(r *http.Request, body []byte) *httptest.ResponseRecorder {
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	goaws.Lock()
	defer goaws.Unlock()
	routes.ServeHTTP(answer, again)
	return answer
}

// receive asks for messages until there are some or the request does not wait any longer.
func receive(r *http.Request, body []byte) *httptest.ResponseRecorder {
	var request map[string]any
	_ = json.Unmarshal(body, &request) // goaws says what is wrong with it
	seconds, _ := request["WaitTimeSeconds"].(float64)
	if seconds > 0 {
		delete(request, "WaitTimeSeconds")
		if changed, err := json.Marshal(request); err == nil {
			body = changed
		}
	}
	end := time.NewTimer(time.Duration(seconds * float64(time.Second)))
	defer end.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		answer := ask(r, body)
		if answer.Code != http.StatusOK || bytes.Contains(answer.Body.Bytes(), []byte(`"ReceiptHandle"`)) {
			return answer
		}
		select {
		case <-r.Context().Done():
			return answer
		case <-end.C:
			return answer
		case <-again.C:
		}
	}
}
