// Package demo is a fleet in one process: two instances that share groups,
// users and connections, a load balancer in front that sends every request to
// the next of them without any stickiness, and publishers that make something
// happen every second. It needs nothing but a free port.
package demo
