-- Indices start at 1; what is not there is null.
a[1]                           => get(a, 0)
a[0]                           => get(a, -1)
a[-1]                          => try_element_at(a, -1)
a[i]                           => get(a, i - 1)
a[i + 1]                       => get(a, (i + 1) - 1)
a[2:3]                         => slice(a, 2, greatest(3 - 2 + 1, 0))
a[1][2]                        => get(get(a, 0), 1)
m['k']                         => m['k']
