package offer

// Aim is what curves of one number are merged for in the end: some members at the lowest price, of which the upper
// digits are known, and in which the last digit counts domains that each take about so many:
//
//	step: 300 members touch 1 spine, 40 nodes ── 2 spines may be touched, 130 nodes
//	useful: 300 ≥ all members - each * (130-40) - what nodes beside these may take beyond each in 1 spine
//
// Other steps are part of no plan at that price.
type Aim struct {
	Members Slots
	Each    Slots
	Price   int64 // of all members; below Shift it says how many domains may be touched
	Shift   int   // price >> Shift is the upper digits
	Unit    int   // the bit of the last digit
	Beyond  Curve // what domains may take beyond each, by the upper digits
}

// Useful leaves out of a curve, in place, the steps that are of no use; nil finds use for everything.
func (a *Aim) Useful(c Curve) Curve {
	if a == nil {
		return c
	}
	out, entry := Curve{width: 1, upTo: c.upTo[:1], price: c.price[:1]}, len(a.Beyond.upTo)-1
	for i := 1; i < len(c.upTo); i++ {
		left := a.Price>>a.Shift - c.price[i]>>a.Shift
		for entry >= 0 && a.Beyond.price[entry]>>a.Shift > left {
			entry--
		}
		if entry < 0 {
			break // nor is what follows of use
		}
		domains := a.Price&(1<<a.Shift-1)>>a.Unit - c.price[i]&(1<<a.Shift-1)>>a.Unit
		if c.upTo[i]+a.Each*Slots(domains)+a.Beyond.upTo[entry] >= a.Members {
			out.upTo, out.price = append(out.upTo, c.upTo[i]), append(out.price, c.price[i])
		}
	}
	return out
}
