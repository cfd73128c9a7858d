// Runs before the first drawing, so that a dark page does not flash white: 'auto', 'light' or 'dark'.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem('weft.theme');
  } catch {
    // Storage is denied: the system's choice holds.
  }
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
})();
