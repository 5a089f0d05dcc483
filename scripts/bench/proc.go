package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"
)

// What Linux tells of another process. Elsewhere nothing is told, and the figures are "n/a".

// memory returns how much memory a process has in use, and the most it ever had, in bytes.
func memory(pid int) (now, peak float64, ok bool) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, 0, false
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		if err != nil {
			continue
		}
		switch name {
		case "VmRSS":
			now = kilobytes * 1024
		case "VmHWM":
			peak = kilobytes * 1024
		}
	}
	return now, peak, now > 0 && peak > 0
}

// forgetPeak has the most memory that a process had count from now.
func forgetPeak(pid int) {
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/clear_refs", []byte("5"), 0) // Without the right to, the figure is the whole peak.
}

// cpu returns how much processor time a process has used, in steps of 10 ms.
func cpu(pid int) (time.Duration, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	// The name, in parentheses, may hold anything. Behind it, utime and stime are the 12th and 13th field.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0, false
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, false
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, true
}

// processor names the processor of this machine, as far as the system does.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
