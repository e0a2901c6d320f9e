# capacity_marks.gp: the knee, and the stages beyond it

set xlabel "planned per second"
stats $stages using 1 nooutput
set xrange [STATS_min * 0.95 : STATS_max * 1.03]
if (over == over) {
	set object rectangle from over, graph 0 to graph 1, graph 1 behind \
		fillcolor rgb limit fillstyle transparent solid 0.07 noborder
	set arrow from over, graph 0 to over, graph 1 nohead linecolor rgb limit dashtype (2,3)
}
if (knee == knee) {
	set arrow from knee, graph 0 to knee, graph 1 nohead linecolor rgb good linewidth 1.5
	set label sprintf("knee: %g/s", knee) at knee, graph 1 right offset -0.7, -0.9 \
		textcolor rgb good
}
