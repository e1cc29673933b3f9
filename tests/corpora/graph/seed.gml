graph [
  directed 1
  multigraph 1
  name "figure"
  entry "A"
  exit "F"
  runs "[[{&#34;edges&#34;: [0, 3, 5, 7]}, 300], [{&#34;edges&#34;: [0, 2, 4, 6]}, 90], [{&#34;edges&#34;: [0, 3, 5, 8, 0, 2, 4, 5, 7]}, 40], [{&#34;edges&#34;: [1, 4, 5, 8, 0, 3, 6]}, 5]]"
  node [
    id 0
    label "A"
    vertex 0
    instructions 4
  ]
  node [
    id 1
    label "B"
    vertex 1
    instructions 2
  ]
  node [
    id 2
    label "C"
    vertex 2
    instructions 3
  ]
  node [
    id 3
    label "D"
    vertex 3
    instructions 5
  ]
  node [
    id 4
    label "E"
    vertex 4
    instructions 2
  ]
  node [
    id 5
    label "F"
    vertex 5
    instructions 3
  ]
  edge [
    source 0
    target 1
    key 0
    id 0
  ]
  edge [
    source 0
    target 2
    key 1
    id 1
  ]
  edge [
    source 1
    target 2
    key 2
    id 2
  ]
  edge [
    source 1
    target 3
    key 3
    id 3
  ]
  edge [
    source 2
    target 3
    key 4
    id 4
  ]
  edge [
    source 3
    target 4
    key 5
    id 5
  ]
  edge [
    source 3
    target 5
    key 6
    id 6
  ]
  edge [
    source 4
    target 5
    key 7
    id 7
  ]
  edge [
    source 4
    target 0
    key 8
    id 8
  ]
]
