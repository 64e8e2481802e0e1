/** Asked for when the server knows nobody without a token. */
import { type FormEvent, useState } from "react";
import { heldToken, holdToken } from "@/api/token";
import { Button } from "@/parts/Button";
import { Field } from "@/parts/Field";
import { useTitle } from "@/parts/Title";
import { t } from "@/texts/texts";

export function SignIn() {
  const [token, setToken] = useState("");
  const [bad, setBad] = useState(false);
  useTitle(t.signIn.title);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const good = token.trim().startsWith("lt_");
    setBad(!good);
    if (good) holdToken(token.trim());
  };
  return (
    <main className="mx-auto flex max-w-sm flex-col gap-4 px-4 py-16">
      <h1 className="text-xl font-semibold">{t.signIn.title}</h1>
      <p className="text-muted">{t.signIn.why}</p>
      <form onSubmit={submit} className="flex flex-col gap-3">
        <Field
          label={t.signIn.token}
          hint={bad ? t.signIn.bad : heldToken() === null ? t.signIn.kept : t.signIn.refused}
          type="password"
          autoComplete="current-password"
          aria-invalid={bad}
          value={token}
          onChange={(event) => setToken(event.target.value)}
          autoFocus
        />
        <Button type="submit" look="main">
          {t.signIn.act}
        </Button>
      </form>
    </main>
  );
}
