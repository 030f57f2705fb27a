// Package docs holds the tests of the manual: every block of Go in it must
// compile against this module, and every relative link must lead somewhere.
//
// A block that begins with "package" is compiled as it is. Any other block is
// either declarations or statements; the test puts them into a package and, if
// need be, into a function, imports what they name, and declares the usual
// variables that they use without declaring (see usualVariables). Statements
// are taken for the beginning of something: they may leave variables unused.
// Whatever else a block needs stands, as declarations that readers do not see,
// in an HTML comment directly before it:
//
//	<!-- with:
//	type line struct{ Text string }
//	-->
package docs
