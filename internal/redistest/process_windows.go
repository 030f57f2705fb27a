package redistest

func (p *process) pause() error  { return errNoSignals }
func (p *process) resume() error { return errNoSignals }
