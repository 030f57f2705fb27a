package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Options says what the page shows. It is copied on entry. Strings are data to
// the page, which shows them as text only; nothing in here can make it load or
// run anything.
type Options struct {
	// Hubs are the paths of the hubs the page can connect to, such as "/hub";
	// the first is chosen at the start. The page connects to paths of its own
	// origin only. Empty means "/hub".
	Hubs []string

	// Version is the server's version, shown beside the name. Empty shows none.
	Version string

	// DemoGroups are joined as soon as the page is connected, such as
	// "demo/ticks". When there are any, the page shows which instance sends how
	// many Tick messages: objects {instance, n, at} with at in milliseconds
	// since 1970 or as an RFC 3339 text. Empty joins none.
	DemoGroups []string

	// Targets are the client methods the page listens for at the start.
	// Empty means "Message" and "Tick".
	Targets []string
}

// config is the body of /assets/config.json.
type config struct {
	Hubs       []string `json:"hubs"`
	Version    string   `json:"version"`
	DemoGroups []string `json:"demoGroups"`
	Targets    []string `json:"targets"`
}

// encode returns the configuration as JSON with <, > and & escaped, so that it
// stays harmless even where a browser is talked into reading it as HTML.
func (o Options) encode() []byte {
	c := config{
		Hubs:       orDefault(o.Hubs, "/hub"),
		Version:    o.Version,
		DemoGroups: orDefault(o.DemoGroups),
		Targets:    orDefault(o.Targets, "Message", "Tick"),
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(true)
	if err := encoder.Encode(c); err != nil {
		panic(fmt.Sprintf("ui: strings did not encode as JSON: %v", err)) // cannot happen: invalid UTF-8 is replaced
	}
	return body.Bytes()
}

// orDefault returns a copy of values, or the defaults when there are none;
// never nil, so that the page always reads an array.
func orDefault(values []string, defaults ...string) []string {
	if len(values) == 0 {
		return append([]string{}, defaults...)
	}
	return slices.Clone(values)
}
