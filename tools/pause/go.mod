module quorate/tools/pause

go 1.26.0
