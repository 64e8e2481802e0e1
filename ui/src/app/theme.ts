/** Dark, light, or as the system has it.  public/assets/theme.js does the same before the first paint. */
import { useState } from "react";

export type Theme = "system" | "light" | "dark";
export const THEMES: readonly Theme[] = ["system", "light", "dark"];
const PLACE = "longtask.theme";

function read(): Theme {
  const found = document.documentElement.dataset.theme;
  return found === "dark" || found === "light" ? found : "system";
}

export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = useState<Theme>(read);
  const choose = (next: Theme) => {
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try {
      if (next === "system") localStorage.removeItem(PLACE);
      else localStorage.setItem(PLACE, next);
    } catch {
      // storage is refused: it lasts as long as this page
    }
    setTheme(next);
  };
  return [theme, choose];
}
