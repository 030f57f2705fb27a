package protocol

import (
	"errors"
	"strings"
	"testing"
)

func TestParseHandshakeRequest(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       HandshakeRequest
	}{
		{"takes members in any order", `{"version":1,"protocol":"json"}`, HandshakeRequest{"json", 1}},
		{"ignores unknown members", `{"a":[{"protocol":1}],"protocol":"json","version":1,"b":null}`, HandshakeRequest{"json", 1}},
		{"takes the last of repeated members", `{"protocol":1,"version":"x","protocol":"json","version":2}`, HandshakeRequest{"json", 2}},
		{"leaves the spelling of the name", `{"protocol":"MessagePack","version":1}`, HandshakeRequest{"MessagePack", 1}},
		{"takes any version", `{"protocol":"json","version":-3}`, HandshakeRequest{"json", -3}},
		{"takes white space", " { \"protocol\" :\n\"json\" , \"version\" : 0 } ", HandshakeRequest{"json", 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			whole := []byte(tt.text + "\x1e")
			for i := range whole {
				if _, size, err := ParseHandshakeRequest(whole[:i], 1024); size != 0 || err != nil {
					t.Fatalf("after %d bytes: got size %d, error %v; want to wait", i, size, err)
				}
			}
			got, size, err := ParseHandshakeRequest(append(whole, "more\x1e"...), 1024)
			if err != nil || got != tt.want || size != len(whole) {
				t.Errorf("got %+v, size %d, error %v; want %+v, size %d", got, size, err, tt.want, len(whole))
			}
		})
	}
}

func TestParseHandshakeRequestRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		reason     Reason
		detail     string
	}{
		{"no JSON", `hello`, ReasonMalformed, "Error reading JSON."},
		{"nothing", ``, ReasonMalformed, "Error reading JSON."},
		{"no object", `[]`, ReasonNotRecord, "Unexpected JSON Token Type 'Array'. Expected a JSON Object."},
		{"half an object", `{"protocol":"json"`, ReasonMalformed, "Error reading JSON."},
		{"text behind the object", `{"protocol":"json","version":1}}`, ReasonMalformed, "Error reading JSON."},
		{"no protocol", `{"version":1}`, ReasonMissing, "Missing required property 'protocol'."},
		{"no version", `{"protocol":"json"}`, ReasonMissing, "Missing required property 'version'."},
		{"a protocol that is null", `{"protocol":null,"version":1}`, ReasonWrongType, "Expected 'protocol' to be of type String."},
		{"a version that is a string", `{"protocol":"json","version":"1"}`, ReasonWrongType, "Expected 'version' to be of type Number."},
		{"a version with a fraction", `{"protocol":"json","version":1.0}`, ReasonWrongType, "Expected 'version' to be of type Number."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, size, err := ParseHandshakeRequest([]byte(tt.text+"\x1e"), 1024)
			if size != 0 {
				t.Errorf("got size %d, want 0", size)
			}
			wantError(t, err, tt.reason, tt.detail)
		})
	}
}

func TestParseHandshakeRequestLimit(t *testing.T) {
	request := AppendHandshakeRequest(nil, HandshakeRequest{"json", 1})
	if _, size, err := ParseHandshakeRequest(request, len(request)); size != len(request) || err != nil {
		t.Errorf("of the limit: got size %d, error %v", size, err)
	}
	if _, _, err := ParseHandshakeRequest(request, len(request)-1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte longer: got error %v, want ErrTooLarge", err)
	}
	if _, size, err := ParseHandshakeRequest([]byte(strings.Repeat(" ", 1000)), 0); size != 0 || err != nil {
		t.Errorf("without limit: got size %d, error %v; want to wait", size, err)
	}
}

func TestParseHandshakeResponse(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"agrees", `{}`, ""},
		{"ignores unknown members", `{"minorVersion":0}`, ""},
		{"unescapes the error", `{"error":"\u003cno\u003e"}`, "<no>"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			whole := []byte(tt.text + "\x1e")
			if _, size, err := ParseHandshakeResponse(whole[:len(whole)-1]); size != 0 || err != nil {
				t.Errorf("without separator: got size %d, error %v; want to wait", size, err)
			}
			got, size, err := ParseHandshakeResponse(whole)
			if err != nil || got != tt.want || size != len(whole) {
				t.Errorf("got %q, size %d, error %v; want %q, size %d", got, size, err, tt.want, len(whole))
			}
		})
	}
	for _, tt := range []struct {
		name, text string
		reason     Reason
	}{
		{"refuses a hub message", `{"type":6}`, ReasonNotRecord},
		{"refuses an error that is null", `{"error":null}`, ReasonWrongType},
		{"refuses what is not JSON", `x`, ReasonMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := ParseHandshakeResponse([]byte(tt.text + "\x1e"))
			wantError(t, err, tt.reason, "")
		})
	}
}

func TestHandshakeTexts(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{string(AppendHandshakeResponse(nil, "")), "{}\x1e"},
		{string(AppendHandshakeResponse(nil, UnsupportedProtocolText("dummy"))), "{\"error\":\"The protocol 'dummy' is not supported.\"}\x1e"},
		{UnsupportedVersionText("json", 3), "The server does not support version 3 of the 'json' protocol."},
		{UnsupportedTransferText("messagepack"), "Cannot use the 'messagepack' protocol on the current transport. The transport does not support 'Binary' transfer format."},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestByName(t *testing.T) {
	if p, ok := ByName("MessagePack", protocols...); !ok || p != (MessagePack{}) {
		t.Errorf("got %v, %v; want MessagePack", p, ok)
	}
	if p, ok := ByName("blazorpack", protocols...); ok {
		t.Errorf("got %v, want none", p)
	}
}
