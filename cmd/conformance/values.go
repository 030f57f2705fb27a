package main

import "time"

// A customObject is a small object that clients send and get back.
type customObject struct {
	Name  string `json:"Name"`
	Value int    `json:"Value"`
}

// A guid is a UUID in its text form, lower case with hyphens.
type guid string

// A complexObject has a member of every kind that the encodings treat apart.
type complexObject struct {
	String    string    `json:"String"`
	IntArray  []int     `json:"IntArray"`
	ByteArray []byte    `json:"ByteArray"`
	Guid      guid      `json:"Guid"`
	DateTime  time.Time `json:"DateTime"`
}

func exampleObject() complexObject {
	return complexObject{
		String: "hello world", IntArray: []int{1, 2, 3}, ByteArray: []byte{1, 2, 3},
		Guid: "00010203-0405-0607-0706-050403020100", DateTime: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

// An invalidOperation is an ordinary error with the type name that the
// official server's test hubs have.
type invalidOperation string

func (e invalidOperation) Error() string    { return string(e) }
func (e invalidOperation) TypeName() string { return "InvalidOperationException" }
