// Before the first paint: a chosen theme must not flash.  Its other half is src/app/theme.ts.
try {
  const chosen = localStorage.getItem("longtask.theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // storage is refused: the system's theme
}
