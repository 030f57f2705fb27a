package hub

import (
	"strings"
	"time"
)

// An Identity is who a connection acts for, as authentication found it out.
// It is fixed for the life of the connection and must not be changed.
type Identity struct {
	// UserID addresses all connections of a user; empty means no user.
	// Compared byte for byte.
	UserID string

	// AgentID names the agent that connects; empty for everybody else.
	AgentID string

	// Permissions are what this identity may do, such as "group:join:ops/*".
	// A "*" at the end stands for any rest; "admin" and "*" allow everything.
	Permissions []string

	// Expires is when the authentication ends; zero means never. See
	// Options.CloseOnAuthenticationExpiration.
	Expires time.Time

	// Values are the application's own facts about the connection, taken
	// from the request while it lasted.
	Values map[string]any
}

// permissionAdmin allows everything.
const permissionAdmin = "admin"

// Allows reports whether the identity has the permission. Nobody (a nil
// Identity) has none.
func (id *Identity) Allows(permission string) bool {
	if id == nil {
		return false
	}
	for _, granted := range id.Permissions {
		if granted == permission || granted == permissionAdmin {
			return true
		}
		if head, wild := strings.CutSuffix(granted, "*"); wild && strings.HasPrefix(permission, head) {
			return true
		}
	}
	return false
}
