module muster.local/peers/bench

go 1.25.0
