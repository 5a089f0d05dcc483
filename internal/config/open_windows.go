package config

const (
	openWithoutWaiting = 0 // named pipes have paths of their own, which are no regular files
	modesCount         = false
)
