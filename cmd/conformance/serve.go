package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// Bounds of the HTTP servers and of the end.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	drainTimeout      = 2 * time.Second // for connections: a poll that never comes need not be waited for
	requestTimeout    = time.Second     // for requests that are no connections
)

// A front is one listener and the server behind it.
type front struct {
	scheme   string
	listener net.Listener
	server   *http.Server
}

// serve runs the host and its listeners until ctx ends, and then ends them
// politely. It prints where they listen once all of it is ready.
func serve(ctx context.Context, cfg config, out io.Writer) (err error) {
	h, err := newHost(cfg)
	if err != nil {
		return err
	}
	defer h.close()
	fronts, err := listen(cfg, h)
	if err != nil {
		return err
	}

	hubs, stopHubs := context.WithCancel(context.WithoutCancel(ctx))
	defer stopHubs()
	g, failed := errgroup.WithContext(ctx)
	g.Go(func() error { return h.run(hubs) })
	h.awaitReady(failed)
	for _, f := range fronts {
		g.Go(f.serve)
		fmt.Fprintf(out, "Now listening on: %s://%s\n", f.scheme, f.listener.Addr())
	}
	g.Go(func() error {
		<-failed.Done()
		defer stopHubs()
		h.drain(drainTimeout)
		end(fronts)
		return nil
	})
	return g.Wait()
}

// serve answers requests until the server is closed.
func (f *front) serve() error {
	var err error
	if f.scheme == "https" {
		err = f.server.ServeTLS(f.listener, "", "")
	} else {
		err = f.server.Serve(f.listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("%s: %w", f.scheme, err)
}

// end lets requests that are under way finish, within bounds.
func end(fronts []*front) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	for _, f := range fronts {
		if err := f.server.Shutdown(ctx); err != nil {
			f.server.Close()
		}
	}
}

// listen opens the listeners of the configuration, or none.
func listen(cfg config, handler http.Handler) ([]*front, error) {
	var fronts []*front
	open := func(scheme, address string, tlsConfig *tls.Config) error {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("%s: %w", scheme, err)
		}
		fronts = append(fronts, &front{scheme, l, &http.Server{
			Handler: handler, TLSConfig: tlsConfig, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout,
			ErrorLog: slog.NewLogLogger(cfg.log.Handler(), slog.LevelDebug),
		}})
		return nil
	}
	err := open("http", cfg.http, nil)
	if err == nil && cfg.https != "" {
		var certificate tls.Certificate
		if certificate, err = selfSigned(time.Now()); err == nil {
			err = open("https", cfg.https, &tls.Config{Certificates: []tls.Certificate{certificate}})
		}
	}
	if err != nil {
		for _, f := range fronts {
			f.listener.Close()
		}
		return nil, err
	}
	return fronts, nil
}

// certificateLife is how long a certificate is good for, in both directions
// half of it: clocks differ.
const certificateLife = 48 * time.Hour

// selfSigned makes a certificate for this machine's loopback names.
func selfSigned(now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: "localhost"},
		NotBefore:             now.Add(-certificateLife / 2),
		NotAfter:              now.Add(certificateLife / 2),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
