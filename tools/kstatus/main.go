// Judges objects as tools for GitOps do: by the library kstatus of Flux and Helm, and by scripts for Argo CD, in the surroundings that it
// gives to scripts. It prints a line of JSON for each object, with what each action would change.
//
//	kstatus FOLDER-OF-SCRIPTS OBJECT.json...
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// As in Argo CD.
const patience = time.Second

type verdict struct {
	File    string         `json:"file"`
	Kstatus string         `json:"kstatus"`
	Why     string         `json:"why"`
	Argo    string         `json:"argo"`
	Message string         `json:"message"`
	Actions map[string]any `json:"actions,omitempty"`
}

var healths = []string{"Healthy", "Progressing", "Degraded", "Suspended"}

// What a script returns. It has the libraries package, base, table, and of os the time and the date: what every version of Argo CD gives
// to a script of a user.
func run(script string, object map[string]any) (any, error) {
	text, err := os.ReadFile(script)
	if err != nil {
		return nil, err
	}
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{{lua.LoadLibName, lua.OpenPackage}, {lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}} {
		l.Push(l.NewFunction(library.open))
		l.Push(lua.LString(library.name))
		l.Call(1, 0)
	}
	l.PreloadModule(lua.OsLibName, safeOs)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l.SetContext(ctx)
	l.SetGlobal("obj", toLua(l, object))
	if err := l.DoString(string(text)); err != nil {
		return nil, fmt.Errorf("%s: %w", script, err)
	}
	return fromLua(l.Get(-1)), nil
}

func safeOs(l *lua.LState) int {
	date := func(l *lua.LState) int {
		whole := lua.NewState()
		defer whole.Close()
		whole.SetGlobal("format", lua.LString(l.CheckString(1)))
		if err := whole.DoString("return os.date(format)"); err != nil {
			l.RaiseError("%s", err.Error())
		}
		l.Push(whole.Get(-1))
		return 1
	}
	clock := func(l *lua.LState) int {
		l.Push(lua.LNumber(time.Now().Unix()))
		return 1
	}
	l.Push(l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{"date": date, "time": clock}))
	return 1
}

func toLua(l *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case string:
		return lua.LString(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case []any:
		table := l.NewTable()
		for _, item := range value {
			table.Append(toLua(l, item))
		}
		return table
	case map[string]any:
		table := l.NewTable()
		for key, item := range value {
			table.RawSetString(key, toLua(l, item))
		}
		return table
	}
	return lua.LNil
}

// An empty table may be either kind: it is none of what is compared here.
func fromLua(value lua.LValue) any {
	switch value := value.(type) {
	case lua.LBool:
		return bool(value)
	case lua.LString:
		return string(value)
	case lua.LNumber:
		return float64(value)
	case *lua.LTable:
		if n := value.Len(); n > 0 {
			items := make([]any, 0, n)
			value.ForEach(func(_, item lua.LValue) { items = append(items, fromLua(item)) })
			return items
		}
		fields := map[string]any{}
		value.ForEach(func(key, item lua.LValue) { fields[key.String()] = fromLua(item) })
		return fields
	}
	return nil
}

// The leaves of an object, by their path.
func leaves(path string, value any, into map[string]any) {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			leaves(path+"."+key, item, into)
		}
	case []any:
		for number, item := range value {
			leaves(fmt.Sprintf("%s[%d]", path, number), item, into)
		}
	case int64:
		into[path] = float64(value)
	default:
		into[path] = value
	}
}

// What is different, with the value after it; null where it is gone.
func changes(before, after any) map[string]any {
	was, is, found := map[string]any{}, map[string]any{}, map[string]any{}
	leaves("", before, was)
	leaves("", after, is)
	for path, value := range is {
		if old, known := was[path]; !known || !reflect.DeepEqual(old, value) {
			found[path] = value
		}
	}
	for path := range was {
		if _, known := is[path]; !known {
			found[path] = nil
		}
	}
	return found
}

func judge(scripts, file string) (*verdict, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	computed, err := status.Compute(&object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	found := &verdict{File: strings.TrimSuffix(filepath.Base(file), ".json"), Kstatus: computed.Status.String(), Why: computed.Message}
	kind := object.GroupVersionKind()
	folder := filepath.Join(scripts, kind.Group+"_"+kind.Kind)
	health, err := run(filepath.Join(folder, "health.lua"), object.Object)
	if err != nil {
		return nil, err
	}
	said, _ := health.(map[string]any)
	found.Argo, _ = said["status"].(string)
	found.Message, _ = said["message"].(string)
	if !slices.Contains(healths, found.Argo) || found.Message == "" {
		return nil, fmt.Errorf("%s: health.lua returns %v", file, health)
	}
	discovery := filepath.Join(folder, "actions", "discovery.lua")
	if _, err := os.Stat(discovery); err != nil {
		return found, nil
	}
	offered, err := run(discovery, object.Object)
	if err != nil {
		return nil, err
	}
	found.Actions = map[string]any{}
	for name, how := range offered.(map[string]any) {
		if how.(map[string]any)["disabled"] == true {
			continue
		}
		after, err := run(filepath.Join(folder, "actions", name, "action.lua"), object.Object)
		if err != nil {
			return nil, err
		}
		found.Actions[name] = changes(object.Object, after)
	}
	return found, nil
}

func main() {
	output := json.NewEncoder(os.Stdout)
	output.SetEscapeHTML(false)
	for _, file := range os.Args[2:] {
		found, err := judge(os.Args[1], file)
		if err == nil {
			err = output.Encode(found)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
