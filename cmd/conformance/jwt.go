package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/transport"
)

const (
	issuer      = "SignalRTestServer"
	audience    = "SignalRTests"
	defaultName = "testuser"
	tokenLife   = 5 * time.Second
	tokenSkew   = 5 * time.Minute // for which an expired token is still good
)

// tokens issues and checks bearer tokens (RFC 7519, HS256).
type tokens struct{ key []byte }

// claims are what a token says. The name identifier is under one of three
// names: that of .NET, that of .NET's short form, or the subject.
type claims struct {
	jwt.RegisteredClaims
	NameIdentifier string `json:"http://schemas.xmlsoap.org/ws/2005/05/identity/claims/nameidentifier,omitempty"`
	NameID         string `json:"nameid,omitempty"`
}

func (c *claims) name() string {
	for _, name := range []string{c.NameIdentifier, c.NameID} {
		if name != "" {
			return name
		}
	}
	return c.Subject
}

func newTokens() *tokens {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	return &tokens{key}
}

// issue makes a token for a name.
func (t *tokens) issue(name string) (string, error) {
	now := time.Now()
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, &claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: issuer, Audience: jwt.ClaimStrings{audience},
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(tokenLife)),
		},
		NameIdentifier: name,
	}).SignedString(t.key)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return signed, nil
}

var (
	errNoToken = errors.New("no bearer token")
	errNoName  = errors.New("the token names nobody")
)

// name checks the token of a request and returns whom it names.
func (t *tokens) name(r *http.Request) (string, error) {
	raw := transport.BearerToken(r)
	if raw == "" {
		return "", errNoToken
	}
	var c claims
	_, err := jwt.ParseWithClaims(raw, &c, func(*jwt.Token) (any, error) { return t.key, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithLeeway(tokenSkew), jwt.WithExpirationRequired())
	if err != nil {
		return "", err
	}
	name := c.name()
	if name == "" {
		return "", errNoName
	}
	return name, nil
}

// authenticate lets in whoever has a token.
func (t *tokens) authenticate(r *http.Request) (*hub.Identity, error) {
	name, err := t.name(r)
	if err != nil {
		return nil, err // 401 with nothing in it
	}
	return &hub.Identity{UserID: name}, nil
}

// recognize lets everybody in, and names those who say who they are: by a
// header that no other server should believe, or by a token.
func (t *tokens) recognize(r *http.Request) (*hub.Identity, error) {
	if name := r.Header.Get("Super-Insecure-UserName"); name != "" {
		return &hub.Identity{UserID: name}, nil
	}
	name, err := t.name(r)
	if err != nil {
		return nil, nil
	}
	return &hub.Identity{UserID: name}, nil
}

// issueHandler answers with a token for the name behind the prefix, or for the
// default name.
func (t *tokens) issueHandler(prefix string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		name := strings.TrimPrefix(r.URL.Path[len(prefix):], "/")
		if name == "" {
			name = defaultName
		}
		token, err := t.issue(name)
		if err != nil {
			writeText(w, http.StatusInternalServerError, err.Error())
			return
		}
		writeText(w, http.StatusOK, token)
	}
}
