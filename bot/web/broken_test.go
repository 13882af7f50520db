package web_test

import (
	"context"
	"time"

	"github.com/threadmill/threadmill/bot/web"
	"github.com/threadmill/threadmill/engine"
	"github.com/threadmill/threadmill/engine/agent"
)

// brokenFiles makes an engine whose files cannot be read.
type brokenFiles struct {
	web.Engine
	err error
}

func (b *brokenFiles) install(o *web.Options) {
	b.Engine = o.Engine
	o.Engine = b
}

func (b *brokenFiles) Files(ctx context.Context, ref string) (engine.Files, error) {
	f, err := b.Engine.Files(ctx, ref)
	return &unreadable{f, b.err}, err
}

type unreadable struct {
	engine.Files
	err error
}

func (u *unreadable) OpenEntries(context.Context, int64) (engine.EntryReader, error) {
	return u, nil
}

func (u *unreadable) Next(int) ([]agent.Entry, error) { return nil, u.err }

func (u *unreadable) Close() error { return nil }

func (u *unreadable) OpenLog() (engine.Log, error) { return nil, u.err }

// failsLater makes an engine whose logs open but cannot be read.
type failsLater struct{ web.Engine }

func (f *failsLater) install(o *web.Options) {
	f.Engine = o.Engine
	o.Engine = f
}

func (f *failsLater) Files(ctx context.Context, ref string) (engine.Files, error) {
	files, err := f.Engine.Files(ctx, ref)
	return &unreadableLog{files}, err
}

type unreadableLog struct{ engine.Files }

func (u *unreadableLog) OpenLog() (engine.Log, error) {
	log, err := u.Files.OpenLog()
	return &noLog{log}, err
}

type noLog struct{ engine.Log }

func (noLog) ReadAt([]byte, int64) (int, error) { return 0, errLater }

// broken is an engine that answers nothing but an error, or panics where there is
// none.
type broken struct {
	web.Engine
	err error
}

func (b *broken) install(o *web.Options) {
	b.Engine = o.Engine
	o.Engine, o.Sessions = b, b
}

func (b *broken) fail() error {
	if b.err == nil {
		panic("out of cheese")
	}
	return b.err
}

func (b *broken) Submit(context.Context, engine.Request) (engine.Execution, bool, error) {
	return engine.Execution{}, false, b.fail()
}

func (b *broken) Execution(context.Context, string) (engine.Execution, error) {
	return engine.Execution{}, b.fail()
}

func (b *broken) Executions(context.Context, engine.Filter) ([]engine.Execution, int, error) {
	return nil, 0, b.fail()
}

func (b *broken) Retry(context.Context, string, string) (engine.Execution, error) {
	return engine.Execution{}, b.fail()
}

func (b *broken) Resume(context.Context, string, string, string, bool) (engine.Execution, error) {
	return engine.Execution{}, b.fail()
}

func (b *broken) Cancel(context.Context, string, string, bool) (engine.Execution, error) {
	return engine.Execution{}, b.fail()
}

func (b *broken) Send(context.Context, string, engine.MessageRequest) (engine.Command, error) {
	return engine.Command{}, b.fail()
}

func (b *broken) Interrupt(context.Context, string, string) (engine.Command, error) {
	return engine.Command{}, b.fail()
}

func (b *broken) Commands(context.Context, string) ([]engine.Command, error) { return nil, b.fail() }

func (b *broken) AddLink(context.Context, []byte, time.Time) error { return b.fail() }

func (b *broken) SpendLink(context.Context, []byte, []byte, time.Time, engine.Audit) error {
	return b.fail()
}

func (b *broken) Session(context.Context, []byte) (time.Time, error) { return time.Time{}, b.fail() }

func (b *broken) ExtendSession(context.Context, []byte, time.Time) error { return b.fail() }

func (b *broken) EndSession(context.Context, []byte, engine.Audit) error { return b.fail() }

func (b *broken) CreateTask(context.Context, engine.Task) (engine.Task, error) {
	return engine.Task{}, b.fail()
}

func (b *broken) Task(context.Context, string) (engine.Task, error) { return engine.Task{}, b.fail() }

func (b *broken) Tasks(context.Context, engine.TaskStatus, int, int) ([]engine.Task, int, error) {
	return nil, 0, b.fail()
}

func (b *broken) RunTask(context.Context, string, engine.Request) (engine.Execution, error) {
	return engine.Execution{}, b.fail()
}

func (b *broken) StopTask(context.Context, string, string) (engine.Execution, error) {
	return engine.Execution{}, b.fail()
}

func (b *broken) Approvals(context.Context, engine.ApprovalFilter) ([]engine.Approval, error) {
	return nil, b.fail()
}

func (b *broken) Approval(context.Context, string) (engine.Approval, error) {
	return engine.Approval{}, b.fail()
}

func (b *broken) Decide(context.Context, string, agent.Decision, *engine.Remember) (engine.Approval, error) {
	return engine.Approval{}, b.fail()
}

func (b *broken) Rules(context.Context) ([]engine.Rule, error) { return nil, b.fail() }

func (b *broken) RemoveRule(context.Context, string, string) (engine.Rule, error) {
	return engine.Rule{}, b.fail()
}

func (b *broken) Budget(context.Context) (engine.BudgetReport, error) {
	return engine.BudgetReport{}, b.fail()
}

func (b *broken) ExtendBudget(context.Context, engine.ExtendRequest) ([]engine.BudgetLine, error) {
	return nil, b.fail()
}

func (b *broken) Agents(context.Context) ([]engine.AgentView, error) { return nil, b.fail() }

func (b *broken) Agent(string) (engine.Agent, bool)           { return engine.Agent{}, false }
func (b *broken) Capability(string) (engine.Capability, bool) { return engine.Capability{}, false }
func (b *broken) Capabilities() []engine.Capability {
	if b.err != nil {
		return b.Engine.Capabilities() // it has no errors
	}
	panic("out of cheese")
}

func (b *broken) Workers(context.Context) ([]engine.WorkerStatus, error) { return nil, b.fail() }

func (b *broken) AuditTrail(context.Context, engine.AuditFilter) ([]engine.Audit, error) {
	return nil, b.fail()
}

func (b *broken) Stats(context.Context) (engine.Stats, error) { return engine.Stats{}, b.fail() }

func (b *broken) Health(context.Context) engine.Health {
	return engine.Health{Checks: []engine.Check{{Name: "database", Required: true, Detail: "gone"}}}
}
