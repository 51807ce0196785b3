package offer

// run is steps of a curve, from the first to the last, of one length of which none adds less to the
// price than the one before:
//
//	        ┌──
//	        │
//	     ┌──┘
//	  ┌──┘
//	──┘
//
// Of two runs with steps of one length the cheapest way to take each count is found by taking the next
// step from the one or the other, whichever adds less: what is added falls nowhere, so nothing that is
// cheaper comes later.
type run struct {
	first, last int
	length      Slots // 0 if there is one step
}

// runs cuts a curve into as few runs as there can be.
func (c Curve) runs() []run { return c.appendRuns(nil) }

// appendRuns is runs after some others.
func (c Curve) appendRuns(all []run) []run {
	r := run{}
	for i := 1; i < len(c.upTo); i++ {
		length := c.upTo[i] - c.upTo[i-1]
		if r.last > r.first && (length != r.length || c.adds(i-1, c, i-2) < 0) {
			all, r = append(all, r), run{first: i, last: i}
			continue
		}
		r.last, r.length = i, length
	}
	return append(all, r)
}

// adds compares what step i+1 of a curve adds to the price of step i with what step j+1 of another one
// adds to that of j.
func (c Curve) adds(i int, o Curve, j int) int {
	w := c.width
	p, q := c.price[i*w:][:2*w], o.price[j*w:][:2*w]
	for k := range w {
		if x, y := p[w+k]-p[k], q[w+k]-q[k]; x != y {
			if x < y {
				return -1
			}
			return 1
		}
	}
	return 0
}

// follow says whether what two runs add up to can be found step by step.
func (r run) follow(o run) bool { return r.length == o.length || r.length == 0 || o.length == 0 }

func (r run) steps() int { return r.last - r.first + 1 }

// mergeRuns offers what two curves take together, run by run, and says whether that is worth the while;
// if not, nothing is offered.
func (t *table) mergeRuns(a, b Curve) bool {
	if len(a.upTo) < fewSteps || len(b.upTo) < fewSteps {
		return false
	}
	ofA, ofB := a.runs(), b.runs()
	if !worthwhile(ofA, ofB) {
		return false
	}
	for _, r := range ofA {
		for _, o := range ofB {
			t.offerRuns(a, r, b, o)
		}
	}
	return true
}

// worthwhile says whether two curves are merged in half the steps or less if they are run by run.
func worthwhile(ofA, ofB []run) bool {
	work, pairs, steps := 0, 0, 0
	for _, o := range ofB {
		steps += o.steps()
	}
	for _, r := range ofA {
		pairs += r.steps() * steps
		for _, o := range ofB {
			if r.follow(o) {
				work += r.steps() + o.steps()
			} else {
				work += r.steps() * o.steps()
			}
		}
	}
	return 2*work <= pairs
}

// fewSteps is how many a curve has for which every step is tried with every other one.
const fewSteps = 8

// offerRuns offers what a run of each of two curves takes together with the other.
func (t *table) offerRuns(a Curve, r run, b Curve, o run) {
	if !r.follow(o) {
		part := Curve{width: b.width, upTo: b.upTo[o.first : o.last+1], price: b.price[o.first*b.width : (o.last+1)*b.width]}
		for i := r.first; i <= r.last; i++ {
			t.offer(a.upTo[i], a.row(i), part)
		}
		return
	}
	for i, j := r.first, o.first; ; {
		if t.one(a.upTo[i]+b.upTo[j], a.price[i*a.width:][:a.width], b.price[j*b.width:][:b.width]) {
			return // what follows is dearer and not enough for more
		}
		switch {
		case i == r.last && j == o.last:
			return
		case j == o.last || i < r.last && a.adds(i, b, j) <= 0:
			i++
		default:
			j++
		}
	}
}

// one offers n members for the sum of two prices, and says whether that is as many as there may be.
func (t *table) one(n Slots, p, q []int64) bool {
	sum := min(n, t.most)
	row := t.price[int(sum)*t.width:][:t.width]
	if !t.known[sum] || lessSum(p, q, row) {
		t.known[sum] = true
		for k := range row {
			row[k] = p[k] + q[k]
		}
	}
	return sum == t.most
}
