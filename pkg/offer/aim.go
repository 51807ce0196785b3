package offer

// Aim is the target of merging curves of one number: all members at the lowest price. Its upper digits are known; the last digit counts
// domains, which each take about Each members:
//
//	step: 300 members touch 1 spine, 40 nodes ── 2 spines may be touched, 130 nodes
//	useful: 300 ≥ all members - each * (130-40) - capacity of further nodes beyond each in 1 spine
//
// Other steps belong to no plan of that price.
type Aim struct {
	Members Slots
	Each    Slots
	Price   int64 // of all members; below Shift it is the number of domains that may be touched
	Shift   int   // price >> Shift is the upper digits
	Unit    int   // the bit of the last digit
	Beyond  Curve // the capacity of domains beyond Each, by the upper digits
}

// Useful returns c without steps that no plan of the target price uses. It reuses c's memory. A nil Aim keeps all steps.
func (a *Aim) Useful(c Curve) Curve {
	if a == nil {
		return c
	}
	out, entry := Curve{width: 1, upTo: c.upTo[:1], price: c.price[:1]}, len(a.Beyond.upTo)-1
	for i := 1; i < len(c.upTo); i++ {
		remaining := a.Price>>a.Shift - c.price[i]>>a.Shift
		for entry >= 0 && a.Beyond.price[entry]>>a.Shift > remaining {
			entry--
		}
		if entry < 0 {
			break // neither are the following steps
		}
		domains := a.Price&(1<<a.Shift-1)>>a.Unit - c.price[i]&(1<<a.Shift-1)>>a.Unit
		if c.upTo[i]+a.Each*Slots(domains)+a.Beyond.upTo[entry] >= a.Members {
			out.upTo, out.price = append(out.upTo, c.upTo[i]), append(out.price, c.price[i])
		}
	}
	return out
}
