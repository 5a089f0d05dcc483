// Package hosts holds the tests that need programs of others: host-test has real AI hosts use the program, review-test has other official
// clients ask a person. They are a module of their own, so that neither the program nor its tests depend on what they need.
package hosts
