# time_phases.gp: the axis of the charts over time, and where phases begin
#
# begins: these seconds, in a string.

set xlabel "seconds since the traffic began"
set xrange [0 : seconds]
set for [i = 1:words(begins)] arrow nohead linecolor rgb faint \
	from word(begins, i) + 0, graph 0 to word(begins, i) + 0, graph 1
