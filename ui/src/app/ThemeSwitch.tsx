import { Monitor, Moon, Sun } from "lucide-react";
import { t } from "@/texts/texts";
import { THEMES, useTheme } from "./theme";

const ICONS = { system: Monitor, light: Sun, dark: Moon } as const;

export function ThemeSwitch() {
  const [theme, choose] = useTheme();
  return (
    <div role="group" aria-label={t.app.theme} className="inline-flex self-start rounded-md border border-line">
      {THEMES.map((one) => {
        const Icon = ICONS[one];
        return (
          <button
            key={one}
            type="button"
            aria-pressed={theme === one}
            title={t.app.themes[one]}
            aria-label={t.app.themes[one]}
            onClick={() => choose(one)}
            className="rounded p-1.5 pointer-coarse:p-3 text-muted hover:text-ink aria-pressed:bg-raised aria-pressed:text-ink"
          >
            <Icon size={14} aria-hidden />
          </button>
        );
      })}
    </div>
  );
}
