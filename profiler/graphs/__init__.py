"""Control-flow graphs and the algorithms on them: loops, numbering, trees, weights, flow."""
