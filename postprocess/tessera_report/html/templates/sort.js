// Sorts a table by the column whose title is clicked; numbers by their exact values, the unknown last.
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const titles = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    const number = cell.querySelector("data");
    if (number) return Number(number.value);
    const text = cell.textContent.trim();
    return text === "–" ? null : text;
  };
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  const sort = (title, column) => {
    const down = title.getAttribute("aria-sort") === "ascending";
    const rows = [...body.rows].map((row) => [key(row, column), row]);
    rows.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null) : (down ? -1 : 1) * compare(a, b));
    body.append(...rows.map(([, row]) => row));
    titles.forEach((other) => other.removeAttribute("aria-sort"));
    title.setAttribute("aria-sort", down ? "descending" : "ascending");
  };
  titles.forEach((title, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...title.childNodes);
    button.addEventListener("click", () => sort(title, column));
    title.append(button);
  });
}
