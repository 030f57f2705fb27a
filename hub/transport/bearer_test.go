package transport

import (
	"net/http"
	"testing"
)

func TestBearerToken(t *testing.T) {
	for _, tt := range []struct{ name, header, query, want string }{
		{"it reads the header", "Bearer a.b", "", "a.b"},
		{"it ignores the scheme's case", "bEARER a.b", "", "a.b"},
		{"it prefers the header", "Bearer a", "access_token=b", "a"},
		{"it reads the query", "", "x=1&access_token=b%2Bc", "b+c"},
		{"it ignores the query key's case", "", "Access_Token=b", "b"},
		{"it takes no other scheme", "Basic a", "access_token=b", ""},
		{"it takes no scheme alone", "Bearer", "", ""},
		{"it finds none", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://site.example/hub?"+tt.query, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tt.header != "" {
				r.Header.Set("Authorization", tt.header)
			}
			if got := BearerToken(r); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
