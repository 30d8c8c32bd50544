// Judges a history of clients of etcd: whether there is one order of its operations, each between its call and its
// return, that a single copy of the store would have answered in the same way. The search is porcupine's, as in etcd's
// own robustness tests; here is what one copy of the store does.
//
// It reads the operations as JSON from stdin, and prints nothing if there is such an order. With a path as its argument it
// draws a history that has none.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

// The keys that a history may have. States are compared as values, so their number is fixed.
const keys = 8

// More than a hundred times what a history of a test takes.
const patience = time.Minute

// What is under a key; the zero value where there is nothing.
type entry struct {
	Value    string `json:"value"`
	Revision int64  `json:"revision"`
}

// A call and its reply.
type operation struct {
	Client int    `json:"client"`
	Call   int64  `json:"call"`
	Return int64  `json:"return"`
	Kind   string `json:"kind"`
	Key    string `json:"key"`
	// What a put or a swap writes.
	Value string `json:"value"`
	// The condition of a swap: the one or the other.
	IfRevision *int64  `json:"if_revision"`
	IfValue    *string `json:"if_value"`
	// Of the store, as the reply says; of a write, its own.
	Revision int64 `json:"revision"`
	Swapped  bool  `json:"swapped"`
	// What a read found, or a swap that did not swap.
	Found entry `json:"found"`
}

// The store: its revision, and what is under each key.
type store struct {
	revision int64
	entries  [keys]entry
}

// What the store is after this operation, and whether it answers like this.
func (s store) step(key int, o operation) (bool, store) {
	now := s.entries[key]
	writes := o.Kind == "put" || o.Kind == "swap" && o.Swapped
	if o.Kind == "swap" {
		holds := o.IfRevision != nil && now.Revision == *o.IfRevision || o.IfValue != nil && now.Revision > 0 && now.Value == *o.IfValue
		if holds != o.Swapped {
			return false, s
		}
	}
	// Others write to the same store: its revision may be any later one.
	if writes {
		if o.Revision <= s.revision {
			return false, s
		}
		s.entries[key] = entry{o.Value, o.Revision}
	} else if o.Revision < s.revision || o.Found != now {
		return false, s
	}
	s.revision = o.Revision
	return true, s
}

func (e entry) String() string {
	if e.Revision == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%q of revision %d", e.Value, e.Revision)
}

func (o operation) String() string {
	switch {
	case o.Kind == "put":
		return fmt.Sprintf("put %s=%q at revision %d", o.Key, o.Value, o.Revision)
	case o.Kind == "read":
		return fmt.Sprintf("read %s at revision %d: %v", o.Key, o.Revision, o.Found)
	}
	condition := "?"
	if o.IfRevision != nil {
		condition = fmt.Sprintf("its revision is %d", *o.IfRevision)
	} else if o.IfValue != nil {
		condition = fmt.Sprintf("it has %q", *o.IfValue)
	}
	if o.Swapped {
		return fmt.Sprintf("put %s=%q if %s: done at revision %d", o.Key, o.Value, condition, o.Revision)
	}
	return fmt.Sprintf("put %s=%q if %s: not at revision %d, it has %v", o.Key, o.Value, condition, o.Revision, o.Found)
}

func run() error {
	var operations []operation
	if err := json.NewDecoder(os.Stdin).Decode(&operations); err != nil {
		return fmt.Errorf("cannot read the operations: %w", err)
	}
	numbers := map[string]int{}
	history := make([]porcupine.Operation, 0, len(operations))
	for _, o := range operations {
		if _, known := numbers[o.Key]; !known {
			numbers[o.Key] = len(numbers)
		}
		history = append(history, porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Call, Output: nil, Return: o.Return})
	}
	if len(numbers) > keys {
		return fmt.Errorf("%d keys, more than %d", len(numbers), keys)
	}
	model := porcupine.Model{
		Init: func() any { return store{} },
		Step: func(state, input, _ any) (bool, any) {
			o := input.(operation)
			return state.(store).step(numbers[o.Key], o)
		},
		DescribeOperation: func(input, _ any) string { return input.(operation).String() },
		DescribeState: func(state any) string {
			s := state.(store)
			text := fmt.Sprintf("revision %d", s.revision)
			for key, number := range numbers {
				text += fmt.Sprintf(", %s: %v", key, s.entries[number])
			}
			return text
		},
	}
	switch porcupine.CheckOperationsTimeout(model, history, patience) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("undecided: no order of the %d operations was found in %v", len(history), patience)
	}
	_, info := porcupine.CheckOperationsVerbose(model, history, patience)
	if len(os.Args) > 1 {
		if err := porcupine.VisualizePath(model, info, os.Args[1]); err != nil {
			return err
		}
	}
	return fmt.Errorf("not linearizable: %s", blocked(model, history, info))
}

// Where the longest order ends, and what has no place in it.
func blocked(model porcupine.Model, history []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []int
	for _, order := range info.PartialLinearizations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	placed := make([]bool, len(history))
	state := model.Init()
	last := "the beginning"
	for _, id := range longest {
		placed[id] = true
		_, state = model.Step(state, history[id].Input, nil)
		last = model.DescribeOperation(history[id].Input, nil)
	}
	first := -1
	for id, operation := range history {
		if !placed[id] && (first < 0 || operation.Return < history[first].Return) {
			first = id
		}
	}
	if first < 0 {
		return "every operation has a place"
	}
	o := history[first]
	return fmt.Sprintf("after %d operations, of which the last is [%s], the store has %s; there is no place for [%s] of client %d, called at %d ns, answered by %d ns",
		len(longest), last, model.DescribeState(state), model.DescribeOperation(o.Input, nil), o.ClientId, o.Call, o.Return)
}

func main() {
	if err := run(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
