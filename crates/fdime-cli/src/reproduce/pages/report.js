// Adds checkboxes that show and hide the series of a figure.
for (const section of document.querySelectorAll("section")) {
  const toggles = section.querySelector(".toggles");
  if (!toggles) continue;
  const marked = [...section.querySelectorAll("[data-series]")];
  const names = [...new Set(marked.map((element) => element.dataset.series))];
  if (names.length < 2) continue;
  for (const name of names) {
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = true;
    box.addEventListener("change", () => {
      for (const element of marked)
        if (element.dataset.series === name) element.style.display = box.checked ? "" : "none";
    });
    label.append(box, " " + name);
    toggles.append(label);
  }
}
// Shows the numbers under the mouse pointer without delay.
const hint = document.getElementById("hint");
document.addEventListener("mousemove", (event) => {
  const title = event.target.closest?.(".figure rect, .figure circle")?.querySelector("title, desc");
  hint.hidden = !title;
  if (!title) return;
  if (title.tagName === "title") {
    // The browser would show its own tooltip later, on top of this one.
    const text = document.createElementNS("http://www.w3.org/2000/svg", "desc");
    text.textContent = title.textContent;
    title.replaceWith(text);
  }
  hint.textContent = title.textContent;
  const left = Math.min(event.clientX + 14, innerWidth - hint.offsetWidth - 8);
  hint.style.left = left + "px";
  hint.style.top = Math.min(event.clientY + 14, innerHeight - hint.offsetHeight - 8) + "px";
});
