module sluice-guarded-call

go 1.24
