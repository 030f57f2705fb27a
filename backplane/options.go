package backplane

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Defaults of Options.
const (
	DefaultKeyPrefix         = "sb:"
	DefaultClientName        = "switchboard"
	DefaultPublishQueueBytes = 64 << 20
	DefaultPublishBatch      = 512
	DefaultPublishBatchBytes = 64 << 10
	DefaultSubscribeBatch    = 512
)

// Options says which Redis to use and how. The zero value of every field but
// URL is the documented default. New copies the options and checks them once.
type Options struct {
	// URL is the address of Redis: redis://user:password@host:port/db,
	// rediss:// for the same over TLS, or unix://user:password@/path/to/socket.
	// Characters of user and password that mean something in a URL are
	// percent-encoded. Required. The parameter skip_verify=true switches the
	// check of the server's certificate off; parameters that size pools or
	// set timeouts and retries are ignored.
	URL string

	// TLSConfig replaces the TLS settings of a rediss:// URL. Nil means those
	// of the URL: TLS 1.2 or newer and the host's certificates.
	TLSConfig *tls.Config

	// ChannelPrefix is put in front of every channel name, byte for byte and
	// without a separator, and taken off every message that arrives. Zero
	// means none. StackExchange.Redis: ConfigurationOptions.ChannelPrefix.
	ChannelPrefix string

	// KeyPrefix is put in front of every key. Zero means "sb:".
	KeyPrefix string

	// ClientName is how the connections appear in CLIENT LIST, followed by
	// ":receive", ":publish" or ":command". No spaces. Zero means
	// "switchboard".
	ClientName string

	// Logger gets the life cycle of the link and, at a limited rate, what was
	// lost. Nil discards.
	Logger *slog.Logger

	// Unsent, if set, is given every message that Publish had queued and that
	// was never written because Redis went away, in order, before OnLink says
	// so. It is called on a goroutine of Run. Messages of PublishConfirmed are
	// not given: their callers get the error.
	Unsent func(channel string, payload []byte)

	// PublishQueueBytes bounds the messages that wait to be written to Redis,
	// in bytes of channel name and payload plus a fixed overhead per message.
	// A full queue makes Publish wait. Zero means 64 MiB.
	PublishQueueBytes int

	// PublishBatch and PublishBatchBytes bound what is written to Redis in one
	// go, in messages and bytes; one message always fits. Zero means 512 and
	// 64 KiB.
	PublishBatch      int
	PublishBatchBytes int

	// SubscribeBatch bounds the channels of one SUBSCRIBE or UNSUBSCRIBE. Zero
	// means 512.
	SubscribeBatch int
}

// OptionError reports an option that New does not accept.
type OptionError struct {
	Field  string // name of the field of Options
	Reason string
	Err    error // ErrUnsupportedScheme or nil
}

func (e *OptionError) Error() string { return "backplane: option " + e.Field + ": " + e.Reason }

// Unwrap returns the cause, which may be nil.
func (e *OptionError) Unwrap() error { return e.Err }

// withDefaults fills in the zero values and checks the rest.
func (o Options) withDefaults() (Options, error) {
	setDefault(&o.KeyPrefix, DefaultKeyPrefix)
	setDefault(&o.ClientName, DefaultClientName)
	setDefault(&o.PublishQueueBytes, DefaultPublishQueueBytes)
	setDefault(&o.PublishBatch, DefaultPublishBatch)
	setDefault(&o.PublishBatchBytes, DefaultPublishBatchBytes)
	setDefault(&o.SubscribeBatch, DefaultSubscribeBatch)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if strings.ContainsFunc(o.ClientName, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return o, &OptionError{Field: "ClientName", Reason: "must be printable ASCII without spaces"}
	}
	for _, limit := range []struct {
		field string
		value int
	}{
		{"PublishQueueBytes", o.PublishQueueBytes},
		{"PublishBatch", o.PublishBatch},
		{"PublishBatchBytes", o.PublishBatchBytes},
		{"SubscribeBatch", o.SubscribeBatch},
	} {
		if limit.value < 0 {
			return o, &OptionError{Field: limit.field, Reason: fmt.Sprintf("%d is negative", limit.value)}
		}
	}
	return o, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// parseURL turns the URL into the options of a client. Its errors never quote
// the URL: it may hold a password, and a mistyped one may hold it anywhere.
func parseURL(raw string) (*redis.Options, error) {
	if raw == "" {
		return nil, &OptionError{Field: "URL", Reason: "is missing"}
	}
	scheme, _, found := strings.Cut(raw, "://")
	switch {
	case !found:
		return nil, &OptionError{Field: "URL", Reason: "has no scheme; want redis://, rediss:// or unix://"}
	case strings.HasPrefix(scheme, "redis-sentinel"), strings.HasPrefix(scheme, "redis-cluster"),
		strings.HasPrefix(scheme, "rediss-sentinel"), strings.HasPrefix(scheme, "rediss-cluster"):
		return nil, &OptionError{Field: "URL", Err: ErrUnsupportedScheme,
			Reason: "scheme " + scheme + " is not supported; want redis://, rediss:// or unix://"}
	case scheme != "redis" && scheme != "rediss" && scheme != "unix":
		return nil, &OptionError{Field: "URL", Err: ErrUnsupportedScheme,
			Reason: "unknown scheme; want redis://, rediss:// or unix://"}
	}
	opt, err := redis.ParseURL(raw)
	if err != nil {
		return nil, &OptionError{Field: "URL", Reason: "cannot be parsed" + parseDetail(raw, err) +
			" (characters such as / ? # @ in user or password must be percent-encoded)"}
	}
	return opt, nil
}

// parseDetail is the parser's complaint, if it cannot contain a secret.
func parseDetail(raw string, err error) string {
	if strings.Contains(raw, "@") {
		return ""
	}
	if parse, ok := errors.AsType[*url.Error](err); ok {
		err = parse.Err
	}
	return ": " + strings.TrimPrefix(err.Error(), "redis: ")
}

// clientOptions are the options all our clients share. Every wait has a limit,
// nothing is retried behind our back, and a client never dials by itself
// except through dial.
func (r *Redis) clientOptions(role string) *redis.Options {
	return &redis.Options{
		Network:               r.server.Network,
		Addr:                  r.server.Addr,
		Username:              r.server.Username,
		Password:              r.server.Password,
		DB:                    r.server.DB,
		ClientName:            r.opt.ClientName + ":" + role,
		Protocol:              2,
		MaxRetries:            -1,
		DialTimeout:           dialTimeout,
		DialerRetries:         1,
		ReadTimeout:           replyTimeout,
		WriteTimeout:          replyTimeout,
		PoolTimeout:           replyTimeout,
		PoolSize:              poolSize,
		PipelinePoolSize:      -1,
		ConnMaxIdleTime:       -1,
		ContextTimeoutEnabled: true,
		DisableIdentity:       true,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	}
}
