// SPDX-License-Identifier: Apache-2.0

// A server of the protocol of Google's Cloud Storage, with one bucket in memory: main HOST:PORT BUCKET.
//
// fake-gcs-server does what Google's JSON API does. The archive's client speaks the XML API, of which fake-gcs-server has a part: it
// takes no object by a PUT unless that is signed in its address, and knows neither x-goog-if-generation-match nor start-after. So a
// request of the one is put into the words of the other here, which has all of it under names that Google gives for both. Whether an
// object may be created, and what is there, is for fake-gcs-server to say.
package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

func main() {
	address, bucket := os.Args[1], os.Args[2]
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true})
	if err != nil {
		log.Fatal(err)
	}
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: bucket})
	log.Fatal(http.ListenAndServe(address, xmlAPI{server.HTTPHandler()}))
}

// The XML API, by a handler of the JSON API.
type xmlAPI struct {
	json http.Handler
}

// What the JSON API says of an object.
type object struct {
	Name       string
	Size       string
	Etag       string
	Generation string
	Updated    time.Time
}

func (api xmlAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// All of it: the client is not to be answered while it still sends.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	// The name of an object is one part of the path, its slashes are escaped. So it is in the JSON API.
	bucket, name, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	atBucket := "/storage/v1/b/" + bucket
	atObject := atBucket + "/o/" + name
	if answer := api.ask(http.MethodGet, atBucket, nil); answer.Code != http.StatusOK {
		refuse(w, answer.Code, "NoSuchBucket")
		return
	}
	switch {
	case name == "" && r.Method == http.MethodGet:
		api.list(w, atBucket+"/o", r.URL.Query())
	case r.Method == http.MethodPut:
		api.put(w, "/upload"+atBucket+"/o", name, r.Header, body)
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		api.get(w, atObject, r.Method)
	case r.Method == http.MethodDelete:
		if answer := api.ask(http.MethodDelete, atObject, nil); answer.Code >= 300 {
			refuse(w, answer.Code, "NoSuchKey")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, http.StatusNotImplemented, "NotImplemented")
	}
}

// https://cloud.google.com/storage/docs/xml-api/put-object-upload
func (api xmlAPI) put(w http.ResponseWriter, at, name string, header http.Header, body []byte) {
	name, err := url.PathUnescape(name)
	if err != nil {
		refuse(w, http.StatusBadRequest, "InvalidURI")
		return
	}
	query := url.Values{"uploadType": {"media"}, "name": {name}}
	if match := header.Get("x-goog-if-generation-match"); match != "" {
		query.Set("ifGenerationMatch", match)
	}
	answer := api.ask(http.MethodPost, at+"?"+query.Encode(), body)
	if answer.Code != http.StatusOK {
		refuse(w, answer.Code, "PreconditionFailed")
		return
	}
	var put object
	read(answer, &put)
	describe(w, put)
	w.WriteHeader(http.StatusOK)
}

// https://cloud.google.com/storage/docs/xml-api/get-object-download
func (api xmlAPI) get(w http.ResponseWriter, at, method string) {
	answer := api.ask(http.MethodGet, at, nil)
	if answer.Code != http.StatusOK {
		refuse(w, answer.Code, "NoSuchKey")
		return
	}
	var found object
	read(answer, &found)
	describe(w, found)
	w.Header().Set("Content-Length", found.Size)
	w.Header().Set("Last-Modified", found.Updated.UTC().Format(http.TimeFormat))
	w.WriteHeader(http.StatusOK)
	if method == http.MethodGet {
		w.Write(api.ask(http.MethodGet, at+"?alt=media", nil).Body.Bytes())
	}
}

// https://cloud.google.com/storage/docs/xml-api/get-bucket-list
func (api xmlAPI) list(w http.ResponseWriter, at string, asked url.Values) {
	after := asked.Get("start-after")
	// The JSON API begins with the name, the XML API behind it.
	query := url.Values{"prefix": {asked.Get("prefix")}, "startOffset": {after}}
	if token := asked.Get("continuation-token"); token != "" {
		query.Set("pageToken", token)
	}
	answer := api.ask(http.MethodGet, at+"?"+query.Encode(), nil)
	if answer.Code != http.StatusOK {
		refuse(w, answer.Code, "InternalError")
		return
	}
	var page struct {
		Items         []object
		NextPageToken string
	}
	read(answer, &page)
	type contents struct {
		Key          string
		Size         string
		ETag         string
		LastModified string
	}
	listed := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []contents
	}{IsTruncated: page.NextPageToken != "", NextContinuationToken: page.NextPageToken}
	for _, item := range page.Items {
		if item.Name != after {
			updated := item.Updated.UTC().Format(time.RFC3339Nano)
			listed.Contents = append(listed.Contents, contents{item.Name, item.Size, item.Etag, updated})
		}
	}
	write(w, http.StatusOK, listed)
}

func (api xmlAPI) ask(method, target string, body []byte) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	request := httptest.NewRequest(method, target, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/octet-stream")
	api.json.ServeHTTP(answer, request)
	return answer
}

func read(answer *httptest.ResponseRecorder, into any) {
	if err := json.Unmarshal(answer.Body.Bytes(), into); err != nil {
		log.Fatal(err)
	}
}

func describe(w http.ResponseWriter, of object) {
	w.Header().Set("ETag", `"`+of.Etag+`"`)
	w.Header().Set("x-goog-generation", of.Generation)
}

// Refuses with the code that this status has in the XML API: the one that is given if it is what is to be expected here.
func refuse(w http.ResponseWriter, status int, code string) {
	if status >= http.StatusInternalServerError && status != http.StatusNotImplemented {
		code = "InternalError"
	}
	write(w, status, struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}{Code: code, Message: http.StatusText(status)})
}

func write(w http.ResponseWriter, status int, what any) {
	w.Header().Set("Content-Type", "application/xml; charset=UTF-8")
	w.WriteHeader(status)
	io.WriteString(w, xml.Header)
	xml.NewEncoder(w).Encode(what)
}
