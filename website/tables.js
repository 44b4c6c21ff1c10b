// tables.css shows the heading of its column before each cell on a phone.
for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
  const headings = [...table.querySelectorAll("thead th")].map(heading => heading.textContent.trim())
  for (const row of table.querySelectorAll("tbody tr"))
    [...row.cells].forEach((cell, column) => { cell.dataset.heading = headings[column] ?? "" })
}
