package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
)

// A bill of materials says which modules a program is made of: SPDX 2.3, as JSON.
// See https://spdx.github.io/spdx-spec/v2.3.
type bill struct {
	SPDXVersion       string         `json:"spdxVersion"`
	DataLicense       string         `json:"dataLicense"`
	SPDXID            string         `json:"SPDXID"`
	Name              string         `json:"name"`
	DocumentNamespace string         `json:"documentNamespace"`
	CreationInfo      creation       `json:"creationInfo"`
	Packages          []spdxPackage  `json:"packages"`
	Relationships     []relationship `json:"relationships"`
}

type creation struct {
	Created  time.Time `json:"created"`
	Creators []string  `json:"creators"`
}

type spdxPackage struct {
	SPDXID           string     `json:"SPDXID"`
	Name             string     `json:"name"`
	VersionInfo      string     `json:"versionInfo"`
	Supplier         string     `json:"supplier"`
	DownloadLocation string     `json:"downloadLocation"`
	FilesAnalyzed    bool       `json:"filesAnalyzed"`
	LicenseConcluded string     `json:"licenseConcluded"`
	LicenseDeclared  string     `json:"licenseDeclared"`
	CopyrightText    string     `json:"copyrightText"`
	Purpose          string     `json:"primaryPackagePurpose"`
	Checksums        []checksum `json:"checksums,omitempty"`
	SourceInfo       string     `json:"sourceInfo,omitempty"`
	ExternalRefs     []external `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type external struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

const (
	documentID = "SPDXRef-DOCUMENT"
	programID  = "SPDXRef-Program"
	nobodySays = "NOASSERTION"
)

// billOf reads what the Go tool wrote into the program.
func (r *release) billOf(p program) (*bill, error) {
	built, err := buildinfo.Read(bytes.NewReader(p.data))
	if err != nil {
		return nil, fmt.Errorf("%s for %s: %w", p.name, p.arch, err)
	}
	name := fmt.Sprintf("%s-%s-linux-%s", p.name, r.version, p.arch)
	sum := fmt.Sprintf("%x", sha256.Sum256(p.data))
	b := &bill{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: documentID, Name: name,
		DocumentNamespace: "https://github.com/muster-scheduler/muster/spdx/" + url.PathEscape(name) + "-" + sum,
		CreationInfo:      creation{r.made, []string{"Tool: muster-release-" + r.version}},
		Relationships:     []relationship{{documentID, "DESCRIBES", programID}},
	}
	ours := newPackage(programID, built.Main.Path, r.version)
	ours.Name, ours.LicenseDeclared, ours.Purpose = p.name, "Apache-2.0", "APPLICATION"
	ours.SourceInfo = "commit " + r.commit
	ours.Checksums = []checksum{{"SHA256", sum}}
	b.Packages = append(b.Packages, ours)
	b.use("Go", "std", strings.TrimPrefix(built.GoVersion, "go"), "")
	for i, m := range built.Deps {
		m = cmp.Or(m.Replace, m)
		b.use(fmt.Sprint(i+1), m.Path, m.Version, sumOf(m))
	}
	return b, nil
}

// sumOf is the module's line of go.sum, by which the Go tool knows it.
func sumOf(m *debug.Module) string {
	if m.Sum == "" {
		return ""
	}
	return "go.sum " + m.Sum
}

func newPackage(id, path, version string) spdxPackage {
	return spdxPackage{
		SPDXID: id, Name: path, VersionInfo: version, Supplier: nobodySays, DownloadLocation: nobodySays,
		LicenseConcluded: nobodySays, LicenseDeclared: nobodySays, CopyrightText: nobodySays, Purpose: "LIBRARY",
		ExternalRefs: []external{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + url.PathEscape(version)}},
	}
}

// use adds a module that the program is made of.
func (b *bill) use(id, path, version, source string) {
	p := newPackage("SPDXRef-Module-"+id, path, version)
	p.SourceInfo = source
	b.Packages = append(b.Packages, p)
	b.Relationships = append(b.Relationships, relationship{programID, "DEPENDS_ON", p.SPDXID})
}

func (r *release) writeBill(p program) error {
	b, err := r.billOf(p)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, b.Name+".spdx.json"), append(data, '\n'), 0o644)
}

func (r *release) writeBills(programs []program) error {
	for _, p := range programs {
		if err := r.writeBill(p); err != nil {
			return err
		}
	}
	return nil
}
