package main

import "github.com/muster-scheduler/muster/test/koord"

// koordinator is Koordinator's scheduler: it reads the PodGroups and the topology that Muster reads, and its gangs have the
// same rule. Its CRDs of the same names are of another form, and are its own while it is measured.
var koordinator = contender{
	name: "koordinator", program: "koord-scheduler", profile: koord.Profile,
	foreign: &foreign{build: koord.Program, flags: koord.Flags, config: koord.Config},
	whole:   true, gathers: true, dress: label, group: sigsGroup, groups: sigsGroups,
}
