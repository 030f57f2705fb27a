// Package imports holds the test that keeps imports running one way. The map in
// it is the project's layout; whoever adds a package adds it there, with the
// reason.
package imports
