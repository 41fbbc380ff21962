module sluice-audit

go 1.24
